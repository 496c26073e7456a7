package diff

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/trace"
)

// verdict names the Call whose whole is the first that differs, and judges it on what it reads on all ranks of both runs.
func (b *between) verdict(m *parting, s *sharing) (string, []string) {
	k := *m.whole
	if b.side[0].gathered(k) {
		return "origin", []string{"what the ranks gathered is not what they had"}
	}
	if name, input, ok := strings.Cut(k.name, "<"); ok {
		_, path := producerOf(name)
		if input != "grad" {
			return "narrow", []string{fmt.Sprintf("%s of %s differs, though what wrote it does not", input, path)}
		}
		return "narrow", []string{fmt.Sprintf("the %s that %s reads differs: how it is summed over microbatches and ranks, the layouts do not share", input, path)}
	}
	if o := s.other(m.a, b.side[0].batching); o != nil && sigsEqual(m.a.In, o.In) {
		m.b = o
		return "origin", []string{"all inputs equal, outputs differ"}
	}
	judging := judging{between: b, sharing: s, call: callOf(k.name)}
	var why []string
	for side, p := range b.side {
		for _, a := range p.wholes[k].args {
			at := p.find(a.lane, &p.lanes[a.lane][a.at], k.name)
			if at < 0 {
				continue
			}
			r := &p.lanes[a.lane][at]
			if side == 1 && m.b == nil {
				m.b = r
			}
			judging.inputs(side, spot{a.lane, at}, m)
			if added := &p.lanes[a.lane][a.at]; added.Kind == "collective" {
				why = appendNew(why, fmt.Sprintf("in run %s ranks add parts of it in %s", runName(side), trace.Path(added.Scope, added.Name)))
			}
		}
	}
	if w := judging.broken; w != nil {
		m.a = w.record
		return "origin", []string{w.why}
	}
	if len(judging.open) > 0 {
		return "narrow", append(why, "the first whose pieces differ, though what it reads was not compared on all ranks: "+strings.Join(judging.open, ", "))
	}
	return "origin", append([]string{"what it reads is equal over all ranks, what it writes is not"}, why...)
}

func runName(side int) string { return [2]string{"A", "B"}[side] }

func callOf(name string) string {
	call, _, _ := strings.Cut(name, "#")
	return call
}

func appendNew(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// judging looks whether what a Call reads is equal over all ranks.
type judging struct {
	*between
	sharing *sharing
	call    string
	open    []string // inputs of which that is not known
	broken  *broken
}

// broken is a collective or a message that brought something else than it was given.
type broken struct {
	record *trace.Record
	why    string
}

func (j *judging) inputs(side int, s spot, m *parting) {
	r := &j.side[side].lanes[s.lane][s.at]
	for i := range r.In {
		g := &r.In[i]
		if g.Scalar || g.From == nil || g.Place != nil || i < len(m.a.In) && sigEqual(g, &m.a.In[i]) && m.b != nil && i < len(m.b.In) && sigEqual(g, &m.b.In[i]) {
			continue
		}
		if !j.settled(side, s, *g.From, 8) {
			j.open = appendNew(j.open, g.Name)
		}
	}
}

// settled tells whether what a producer wrote is equal in both runs, or was brought from such a one.
func (j *judging) settled(side int, s spot, from string, hops int) bool {
	p := j.side[side]
	r := &p.lanes[s.lane][s.at]
	if phase, _ := producerOf(from); !inside(phase) {
		return j.state(p, s, from)
	}
	switch j.of(p.key(r, p.made(s.lane, r, from))) {
	case equalBits, near:
		return true
	}
	if callOf(from) == j.call {
		return true
	}
	at := p.find(s.lane, r, from)
	if at < 0 || hops == 0 {
		return false
	}
	c := &p.lanes[s.lane][at]
	switch {
	case j.sharing.sharedEqual(globalKey(c, p.batching)):
		return true
	case receives(c):
		return j.message(side, c, hops)
	case c.Kernel == "all_gather":
		own := p.key(c, from)
		if p.gathered(own) {
			j.broken = &broken{c, fmt.Sprintf("in run %s: what the ranks gathered is not what they had", runName(side))}
		}
		return p.wholes[own].complete() && j.settled(side, spot{s.lane, at}, *c.In[0].From, hops-1)
	}
	return false
}

// state is settled of what was written outside of microbatches, other than weights: in this step or the one before, or at the beginning.
func (j *judging) state(p *parts, s spot, from string) bool {
	r := p.lanes[s.lane][s.at]
	r.Microbatch = 0
	for _, iteration := range []int{r.Iteration, r.Iteration - 1, 0} {
		r.Iteration = iteration
		at := p.find(s.lane, &r, from)
		if at < 0 || at > s.at {
			continue
		}
		made := &p.lanes[s.lane][at]
		if made.Kind == "state" { // it would have differed before; a rank's random stream may be its own
			return true
		}
		d := j.of(p.key(made, from))
		return d == equalBits || d == near || j.sharing.sharedEqual(globalKey(made, p.batching))
	}
	return false
}

// message looks at what was sent.
func (j *judging) message(side int, r *trace.Record, hops int) bool {
	k, ok := peer(r)
	p := j.side[side]
	lane := slices.Index(p.ranks, k.Rank)
	if !ok || lane < 0 {
		return false
	}
	at := p.find(lane, &trace.Record{Iteration: k.Iteration, Microbatch: k.Microbatch}, k.Phase+" "+k.Name)
	if at < 0 {
		return false
	}
	sent := &p.lanes[lane][at]
	if len(sent.In) == 0 || sent.In[0].From == nil || len(r.Out) == 0 {
		return false
	}
	if sent.In[0].Digest != r.Out[0].Digest {
		j.broken = &broken{r, fmt.Sprintf("in run %s: what was received is not what rank %d sent", runName(side), k.Rank)}
		return false
	}
	return j.settled(side, spot{lane, at}, *sent.In[0].From, hops-1)
}

// sharedEqual tells whether an ID is whole in both runs, and equal.
func (s *sharing) sharedEqual(k trace.Key) bool {
	return s.shared[k] && equal(s.side[0].by[k][0], s.side[1].by[k][0])
}
