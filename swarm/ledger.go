package swarm

import (
	"slices"
	"strings"

	"firstbit/trace"
)

// ledger is two traces side by side, by key alone: what is equal in them and what is not, without a judgement on why. The answers are read
// from it, so that they are not the localiser's.
type ledger struct {
	a, b   *trace.Trace
	inA    map[trace.Key]*trace.Record
	inB    map[trace.Key]*trace.Record
	groups map[string][]int
	alone  bool // only run B's trace will be looked at
}

func newLedger(a, b *trace.Trace) *ledger {
	l := &ledger{a: a, b: b, inA: map[trace.Key]*trace.Record{}, inB: map[trace.Key]*trace.Record{}, groups: b.Run.Groups}
	for _, side := range []struct {
		of *trace.Trace
		to map[trace.Key]*trace.Record
	}{{a, l.inA}, {b, l.inB}} {
		for i := range side.of.Ranks {
			for j := range side.of.Ranks[i].Records {
				r := &side.of.Ranks[i].Records[j]
				side.to[r.Key()] = r
			}
		}
	}
	return l
}

// each visits the records of run B, rank by rank in their order, until told to stop with a rank.
func (l *ledger) each(visit func(a, b *trace.Record) (next bool)) {
	for i := range l.b.Ranks {
		for j := range l.b.Ranks[i].Records {
			b := &l.b.Ranks[i].Records[j]
			if !visit(l.inA[b.Key()], b) {
				break
			}
		}
	}
}

func same(a, b []trace.Sig) bool {
	return slices.EqualFunc(a, b, func(x, y trace.Sig) bool { return x.Name == y.Name && x.Digest == y.Digest })
}

// shows tells a record of a look at what others computed.
func shows(r *trace.Record) bool {
	return r.Kind == "metric" || r.Kind == "state" || r.Kind == "module"
}

// identical tells whether no bit differs from a step on. A record that one run has alone is a difference, unless it moves a stream, as faults do, or
// the runs overlap what they do otherwise.
func (l *ledger) identical(from int, otherwise bool) bool {
	alone := func(r *trace.Record) bool {
		return r.Iteration >= from && !otherwise && r.Scope != "iterator" && r.Scope != "seed"
	}
	equal := true
	l.each(func(a, b *trace.Record) bool {
		switch {
		case a == nil:
			equal = equal && !alone(b)
		case b.Iteration >= from && len(a.Flags)+len(b.Flags) == 0:
			equal = equal && same(a.Out, b.Out) && (len(a.In)*len(b.In) == 0 || same(a.In, b.In))
		}
		return equal
	})
	for k, a := range l.inA { // whether there is one: order reaches nothing
		equal = equal && (l.inB[k] != nil || !alone(a))
	}
	return equal
}

// wrote are the records that a fault acted on, and that wrote other bits though they read the same: on each rank the first.
func (l *ledger) wrote(f *Fault) (at []*trace.Record) {
	l.each(func(a, b *trace.Record) bool {
		if a == nil || !f.acts(b) || shows(b) || len(b.Flags) > 0 || same(a.Out, b.Out) || !l.readAlike(b) {
			return true
		}
		at = append(at, b)
		return false
	})
	return at
}

// readAlike tells whether a record read the same in both runs, and so did the others of a collective, or the sender.
func (l *ledger) readAlike(b *trace.Record) bool {
	if a := l.inA[b.Key()]; a == nil || !same(a.In, b.In) {
		return false
	}
	if b.Kind != "collective" {
		return true
	}
	for _, rank := range l.groups[b.Group] {
		k := b.Key()
		k.Rank = rank
		if a, m := l.inA[k], l.inB[k]; a == nil || m == nil || !same(a.In, m.In) {
			return false
		}
	}
	return true
}

// reader is who first reads other bits than a Call of run B wrote, after it: a Call that computes, else what shows them.
func (l *ledger) reader(f *Fault, wrote *trace.Record) *trace.Record {
	from, out := producer(wrote), &wrote.Out[0]
	for i := range wrote.Out {
		if wrote.Out[i].Name == f.Out {
			out = &wrote.Out[i]
		}
	}
	if len(wrote.Out) > 1 {
		from += "#" + out.Name
	}
	var computes, looks *trace.Record
	l.each(func(a, b *trace.Record) bool {
		switch {
		case b.Rank != wrote.Rank || a == nil || b.Seq <= wrote.Seq || b.Kind == "module" || !l.other(a, b, from, out):
		case shows(b):
			if looks == nil {
				looks = b
			}
		default:
			computes = b
			return false
		}
		return true
	})
	if computes != nil {
		return computes
	}
	return looks
}

// other tells whether two records read other bits of a producer, whose output it is; of run B alone only the whole of it shows that.
func (l *ledger) other(a, b *trace.Record, from string, out *trace.Sig) bool {
	for i := range b.In {
		in := &b.In[i]
		if l.alone && !slices.Equal(in.Shape, out.Shape) {
			continue
		}
		if in.From != nil && *in.From == from && i < len(a.In) && a.In[i].Digest != in.Digest {
			return true
		}
	}
	return false
}

// shared are the records of run B that first read, on each rank, what is not what was written there, or, if that counts, that overwrote what they
// were reading: of two Calls in one memory, or of others whose tensors these update.
func (l *ledger) shared(f *Fault, inPlace bool) (at []*trace.Record) {
	last := latest{}
	rank := all
	l.each(func(a, b *trace.Record) bool {
		if b.Rank != rank {
			rank = b.Rank
			clear(last)
		}
		if b.Kind == "state" || b.Phase == "load" { // which others name as who wrote it
			last.note(b)
		}
		if a == nil || f.Rank != all && f.Rank != rank || shows(b) {
			return true
		}
		path := trace.Path(b.Scope, b.Name)
		mine := path == f.Name || path == f.With
		for i := range b.In {
			if in := &b.In[i]; in.From != nil && i < len(a.In) && a.In[i].Digest != in.Digest && l.kept(last, in, b, f) {
				at = append(at, b)
				return false
			}
		}
		if inPlace && mine && same(a.In, b.In) && !same(a.Out, b.Out) && l.readAlike(b) {
			at = append(at, b)
			return false
		}
		last.note(b)
		return true
	})
	return at
}

// latest are the last records of Calls, and of Calls in a microbatch.
type latest map[site]*trace.Record

type site struct {
	producer string
	micro    int
}

func (w latest) note(r *trace.Record) {
	w[site{producer(r), all}], w[site{producer(r), r.Microbatch}] = r, r
}

// kept tells whether the Call that an input comes from wrote the same in both runs: in the reader's microbatch, if it ran there.
func (l *ledger) kept(last latest, in *trace.Sig, reader *trace.Record, f *Fault) bool {
	from, _, _ := strings.Cut(*in.From, "#")
	b := last[site{from, all}]
	if own := last[site{from, reader.Microbatch}]; own != nil && reader.Phase != "opt" && own.Iteration == reader.Iteration {
		b = own
	}
	if b == nil { // in an earlier step than the trace
		_, path, _ := strings.Cut(from, " ")
		return !l.alone && (path == f.Name || path == f.With)
	}
	whole := func(out trace.Sig) bool { return slices.Equal(out.Shape, in.Shape) }
	if l.alone && !slices.ContainsFunc(b.Out, whole) { // of a part, run B alone does not tell what was written
		return false
	}
	a := l.inA[b.Key()]
	if a == nil && b.Phase == "load" { // run A never stopped
		return !slices.ContainsFunc(b.Out, func(out trace.Sig) bool { return out.Digest == in.Digest })
	}
	return a != nil && same(a.Out, b.Out)
}

// restored are the records that first read, on each rank, what a restore left otherwise: an input that nothing wrote since. The restore itself
// may have taken it from the rank of the fault to others.
func (l *ledger) restored(saved int) (at []*trace.Record) {
	wrote, rank := map[string]bool{}, all
	var looks *trace.Record
	found := func() {
		if looks != nil {
			at = append(at, looks)
			looks = nil
		}
	}
	l.each(func(a, b *trace.Record) bool {
		if b.Rank != rank {
			found()
			rank = b.Rank
			clear(wrote)
		}
		if a == nil || b.Iteration <= saved || b.Kind == "module" {
			return true
		}
		for i := range b.In {
			in := &b.In[i]
			if i >= len(a.In) || a.In[i].Digest == in.Digest || in.From != nil && wrote[*in.From] {
				continue
			}
			if shows(b) {
				if looks == nil {
					looks = b
				}
				break
			}
			at, looks = append(at, b), nil
			return false
		}
		for i := range b.Out {
			from := producer(b)
			wrote[from], wrote[from+"#"+b.Out[i].Name] = true, true
		}
		return true
	})
	found()
	return at
}
