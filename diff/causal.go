package diff

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/trace"
)

// breach is a read of something else than what its producer last wrote: memory changed in between, and no Call says so.
type breach struct {
	at, in int    // the record that reads, and which of its inputs
	wrote  int    // the record that wrote it
	over   string // who wrote there in between, as in From; empty: nobody that was traced
	stale  bool   // it is what the producer had written the time before
}

// write is one tensor as a record left it.
type write struct {
	at int
	*trace.Sig
}

// causes goes through the records of one rank in the order of execution and holds what each reads against what wrote it.
//
// A producer is a Call of one name, which runs in every microbatch. What is read is what it wrote last, or, where microbatches are under way at
// the same time, what it wrote in the reader's. Where a record reads several tensors of one producer, each may be of another microbatch of the step.
// Of views, whose shape is another, and of destinations that nobody may read yet, only who wrote there in between is known; across steps that
// were not traced, nothing.
type causes struct {
	records []trace.Record
	last    map[string][]write // by producer: its writes of the latest step in which it ran
	spent   map[string]write   // and the last of those before
	digests map[string]int     // by digest: the last record that wrote it
	found   []breach
}

func breaches(records []trace.Record) []breach {
	c := causes{records: records, last: map[string][]write{}, spent: map[string]write{}, digests: map[string]int{}}
	step := 0
	for i := range records {
		r := &records[i]
		if r.Iteration < step || r.Iteration > step+1 {
			clear(c.last)
			clear(c.spent)
		}
		step = r.Iteration
		if r.Kind == "module" || r.Kind == "kernel" { // boundaries, and what their Call's record says again
			continue
		}
		for in := range r.In {
			c.read(i, in)
		}
		if r.Kind == "state" && len(r.In) > 0 && r.In[0].From != nil { // a look at what another wrote
			c.seen(i)
			continue
		}
		for out := range r.Out {
			c.write(i, out)
		}
	}
	return computed(records, c.found)
}

// computed leaves out metrics and states that show what a Call reads later: it is the Call that computes with it.
func computed(records []trace.Record, found []breach) []breach {
	shows := func(b breach) bool { return records[b.at].Kind == "metric" || records[b.at].Kind == "state" }
	type tensor struct {
		wrote int
		from  string
	}
	of := func(b breach) tensor { return tensor{b.wrote, *records[b.at].In[b.in].From} }
	read := map[tensor]bool{}
	for _, b := range found {
		read[of(b)] = read[of(b)] || !shows(b)
	}
	return slices.DeleteFunc(found, func(b breach) bool { return shows(b) && read[of(b)] })
}

// seen takes what a state record shows for what its producer wrote, where that was not traced.
func (c *causes) seen(at int) {
	g := &c.records[at].In[0]
	if len(c.last[*g.From]) == 0 {
		c.last[*g.From] = []write{{at, g}}
	}
}

func (c *causes) write(at, out int) {
	r := &c.records[at]
	g := &r.Out[out]
	from := r.Phase + " " + trace.Path(r.Scope, r.Name)
	if len(r.Out) > 1 {
		from += "#" + g.Name
	}
	w := write{at, g}
	c.digests[g.Digest] = at
	before := c.last[from]
	if n := len(before); n > 0 {
		c.spent[from] = before[n-1]
		if c.records[before[0].at].Iteration != r.Iteration {
			before = before[:0]
		}
	}
	c.last[from] = append(before, w)
}

// read notes a breach if an input is not what its producer wrote.
func (c *causes) read(at, in int) {
	r := &c.records[at]
	g := &r.In[in]
	if g.From == nil || g.Scalar {
		return
	}
	writes := c.last[*g.From]
	if len(writes) == 0 {
		if g.Over != "" || lost(r, g) { // its producer's destination was pending: what it was to be is not known
			if wrote := c.ran(*g.From, at); wrote >= 0 {
				c.found = append(c.found, breach{at: at, in: in, wrote: wrote, over: g.Over})
			}
		}
		return
	}
	meant := c.meant(r, g, writes)
	view := !slices.ContainsFunc(meant, func(w write) bool { return sameShape(w.Sig, g) }) // of which no digest is known
	if view && g.Over == "" || slices.ContainsFunc(meant, func(w write) bool { return w.Digest == g.Digest }) {
		return
	}
	b := breach{at: at, in: in, wrote: meant[len(meant)-1].at, over: g.Over}
	if w, ok := c.spent[*g.From]; ok && w.Digest == g.Digest {
		b.stale = true
	} else if over, ok := c.digests[g.Digest]; ok && b.over == "" && over > b.wrote {
		o := &c.records[over]
		b.over = o.Phase + " " + trace.Path(o.Scope, o.Name)
	}
	c.found = append(c.found, b)
}

// lost tells whether a wait finds something else in the destination than the result that all parts of it should have brought there.
func lost(r *trace.Record, y *trace.Sig) bool {
	if r.Kind != "collective" || y.Name != "y" || !strings.HasSuffix(r.Name, waitSuffix) {
		return false
	}
	i := slices.IndexFunc(r.In, func(g trace.Sig) bool { return g.Name == "result" })
	return i >= 0 && sameShape(&r.In[i], y) && r.In[i].Digest != y.Digest
}

// meant is what a record may have meant to read.
func (c *causes) meant(r *trace.Record, g *trace.Sig, writes []write) []write {
	same, own := 0, 0
	for i := range r.In {
		if &r.In[i] == g {
			own = same
		}
		if r.In[i].From != nil && *r.In[i].From == *g.From {
			same++
		}
	}
	switch {
	case same > 1 && same == len(writes) && !inside(r.Phase): // those of all microbatches, in their order
		return writes[own : own+1]
	case same > 1:
		return writes
	}
	last := len(writes) - 1
	if inside(r.Phase) {
		for i := last - 1; i >= 0; i-- {
			if w := &c.records[writes[i].at]; w.Iteration == r.Iteration && w.Microbatch == r.Microbatch {
				if g.Over != "" { // another wrote there since: that it is what the producer wrote last is chance
					return writes[i : i+1]
				}
				return []write{writes[i], writes[last]}
			}
		}
	}
	return writes[last:]
}

// ran is the last record of a producer before another; none if it has none there.
func (c *causes) ran(from string, before int) int {
	phase, path := producerOf(from)
	for i := before - 1; i >= 0; i-- {
		if r := &c.records[i]; r.Phase == phase && trace.Path(r.Scope, r.Name) == path && r.Kind != "module" && r.Kind != "kernel" {
			return i
		}
	}
	return none
}

func sameShape(a, b *trace.Sig) bool { return a.Dtype == b.Dtype && slices.Equal(a.Shape, b.Shape) }

// why says what a breach is.
func (b *breach) why(records []trace.Record) string {
	g := &records[b.at].In[b.in]
	text := fmt.Sprintf("input %s is not what %q wrote", g.Name, *g.From)
	switch {
	case b.over != "":
		return text + fmt.Sprintf(": %q wrote to its memory in between", b.over)
	case b.stale:
		return text + " last, but what it wrote the time before: it was read too early"
	}
	return text + ": memory changed in between, and no traced Call wrote there"
}

// brought is what a record reads, without what the Call that started it made: a wait reads the result, and the destination.
func brought(r *trace.Record) []trace.Sig {
	start, waits := strings.CutSuffix(r.Name, waitSuffix)
	if r.Kind != "collective" || !waits {
		return r.In
	}
	from := r.Phase + " " + trace.Path(r.Scope, start)
	own := func(g trace.Sig) bool { return g.From != nil && *g.From == from }
	return slices.DeleteFunc(slices.Clone(r.In), own)
}

// overwritten is an input whose memory a Call's own output took, in one of two runs; nil: none is. Where it does in both it is meant to, and where
// what is written is what was read, as of a copy that is in its place already, nothing changed.
func overwritten(a, b *trace.Record) *trace.Sig {
	self := func(r *trace.Record, i int) bool {
		if i >= len(r.In) {
			return false
		}
		phase, path := producerOf(r.In[i].Over)
		return phase == r.Phase && path == trace.Path(r.Scope, r.Name)
	}
	copied := func(r *trace.Record, i int) bool {
		return slices.ContainsFunc(r.Out, func(out trace.Sig) bool { return out.Digest == r.In[i].Digest })
	}
	for i := range a.In {
		inA, inB := self(a, i), self(b, i)
		if inA && !inB && !copied(a, i) || inB && !inA && !copied(b, i) {
			return &a.In[i]
		}
	}
	return nil
}
