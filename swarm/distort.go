package swarm

import (
	"slices"
	"strings"

	"firstbit/trace"
)

// Distortion is a change to the records of a trace that is well formed: all of a Call's have another name, are missing, or stand there twice.
type Distortion struct {
	How  string `json:"how"` // renamed, dropped, inserted
	InB  bool   `json:"in_b,omitempty"`
	Name string `json:"name"`
}

// distorts draws a trace that does not hold what its run did, of a run with a fault or without.
func distorts(d die, c *Case, b *bench) bool {
	r := d.record(b.a, func(r *trace.Record) bool { return r.Kind == "op" && inSteps(r) })
	if r == nil {
		return false
	}
	c.Distorted = &Distortion{one(d, []string{"renamed", "dropped", "inserted"}), d.chance(50), trace.Path(r.Scope, r.Name)}
	if d.chance(50) {
		return true
	}
	return flips(one(d, []string{"", atRestWords}))(d, c, b)
}

// throughDistortion is right to name the fault nevertheless.
func throughDistortion(c *Case, l *ledger) []Answer {
	switch {
	case len(c.Faults) == 0:
		return nil
	case atRestText(c.Faults[0].Text):
		return atRest(c, l)
	}
	return written("hardware")(c, l)
}

const atRestWords = " at=rest"

func atRestText(text string) bool { return strings.HasSuffix(text, atRestWords) }

// apply is a copy of a trace with the distortion.
func (x *Distortion) apply(t *trace.Trace) *trace.Trace {
	out := *t
	out.Ranks = slices.Clone(t.Ranks)
	for i := range out.Ranks {
		out.Ranks[i].Records = x.records(out.Ranks[i].Records)
	}
	return &out
}

func (x *Distortion) records(records []trace.Record) (out []trace.Record) {
	for _, r := range records {
		mine := r.Kind == "op" && trace.Path(r.Scope, r.Name) == x.Name
		switch {
		case mine && x.How == "dropped":
			continue
		case mine && x.How == "renamed":
			r.Name += other
		}
		if x.How == "renamed" {
			r.In = x.named(r.In)
		}
		out = append(out, r)
		if mine && x.How == "inserted" {
			r.Name += other
			out = append(out, r)
		}
	}
	for i := range out {
		out[i].Seq = i
	}
	return out
}

const other = "_2"

// named are inputs that come from the Call by its new name.
func (x *Distortion) named(in []trace.Sig) []trace.Sig {
	in = slices.Clone(in)
	for i := range in {
		if in[i].From == nil {
			continue
		}
		from, out, several := strings.Cut(*in[i].From, "#")
		if _, path, _ := strings.Cut(from, " "); path != x.Name {
			continue
		}
		if from += other; several {
			from += "#" + out
		}
		in[i].From = &from
	}
	return in
}
