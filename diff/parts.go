package diff

import (
	"fmt"
	"maps"
	"slices"

	"firstbit/parallel"
	"firstbit/trace"
)

// wholeKey names what a Call wrote on all ranks: its producer's name (phase, path and output), and where microbatches of one number have the
// same samples in both runs the number; else everyMicro, and the whole is that of a step.
type wholeKey struct {
	iteration, micro int
	name             string
}

const everyMicro = -1

// whole is what the ranks of a run have together of what a Call wrote, in pieces with places. Copies of a piece count once.
type whole struct {
	dtype   string
	shape   []int
	sum     trace.Sum
	n, of   int               // elements that the pieces have, of those there are
	pieces  map[string]string // sums by places
	torn    bool              // copies of a piece differ
	gathers *wholeKey         // what a collective gathered: it must be equal in the same run; nil: it is none
	args    []argument
}

// argument is an input or output of a record.
type argument struct {
	spot
	sig     *trace.Sig
	output  bool
	byToken bool      // the whole has the samples of all microbatches
	gathers *wholeKey // of a collective
}

// parts is the wholes of a run.
type parts struct {
	batching
	within bool // microbatches are apart
	ranks  []int
	lanes  [][]trace.Record
	byID   []map[trace.Key]int // by lane: records by producers' names
	wholes map[wholeKey]*whole
}

func partsOf(t *trace.Trace, w *window, level trace.Level, c batching, within bool) *parts {
	p := &parts{batching: c, within: within, wholes: map[wholeKey]*whole{}}
	if !t.Run.Parts {
		return p
	}
	for _, rank := range t.Ranks {
		l, records := len(p.lanes), upTo(w.of(rank.Records), level)
		p.ranks, p.lanes, p.byID = append(p.ranks, rank.Rank), append(p.lanes, records), append(p.byID, map[trace.Key]int{})
		for i := range records {
			if r := &records[i]; r.Kind != "module" && r.Kind != "kernel" {
				p.byID[l][localKey(r, r.Phase, trace.Path(r.Scope, r.Name))] = i
			}
		}
		for i := range records {
			p.each(spot{l, i}, p.add)
		}
	}
	return p
}

// definitions are those of a trace's digests; of sums over pieces only if another trace has them too.
func definitions(t, other *trace.Trace) map[string]string {
	d := maps.Clone(t.Run.Digests)
	if !other.Run.Parts {
		delete(d, trace.PartsDigest)
	}
	return d
}

// lackingParts says why pieces are not compared though a trace has sums over them; nil: they are, or neither has.
func lackingParts(a, b *trace.Trace) *string {
	if !a.Run.Parts && !b.Run.Parts {
		return nil
	}
	for _, t := range []*trace.Trace{a, b} {
		text := ""
		l, err := parallel.ParseLayout(t.Run.Layout)
		switch {
		case !t.Run.Parts:
			text = fmt.Sprintf("trace %s has no sums over pieces: train --parts makes them", t.Dir)
		case err == nil && len(t.Ranks) < l.World():
			text = fmt.Sprintf("trace %s has %d of %d ranks: what the others have pieces of is not compared", t.Dir, len(t.Ranks), l.World())
		default:
			continue
		}
		return &text
	}
	return nil
}

// localKey is the place of a producer's name in a rank's microbatch.
func localKey(r *trace.Record, phase, path string) trace.Key {
	return trace.Key{Iteration: r.Iteration, Microbatch: r.Microbatch, Phase: phase, Name: path}
}

// find is the record that a rank has of a producer; −1: none.
func (p *parts) find(lane int, r *trace.Record, from string) int {
	phase, path := producerOf(from)
	i, ok := p.byID[lane][localKey(r, phase, path)]
	if !ok {
		return -1
	}
	return i
}

// each calls do for whatever has a place in the whole that a record reads or writes. What ranks add up is named by the Call that made the
// terms, and so is a weight's gradient that is accumulated.
func (p *parts) each(s spot, do func(k wholeKey, a argument)) {
	r := &p.lanes[s.lane][s.at]
	if r.Kind == "module" || r.Kind == "kernel" {
		return
	}
	own := r.Phase + " " + trace.Path(r.Scope, r.Name)
	for i := range r.In {
		g := &r.In[i]
		switch {
		case g.Place == nil:
		case r.Kind == "optim" || !fromInside(g): // a weight, or the gradient that updates one
			do(p.key(r, own+"<"+g.Name), argument{spot: s, sig: g})
		case p.within:
			do(p.key(r, p.made(s.lane, r, *g.From)), argument{spot: s, sig: g})
		}
	}
	for i := range r.Out {
		g := &r.Out[i]
		if g.Place == nil {
			continue
		}
		name := own
		if len(r.Out) > 1 {
			name += "#" + g.Name
		}
		var gathers *wholeKey
		if from := collected(r); from != "" {
			k := p.key(r, p.made(s.lane, r, from))
			if r.Kernel == "all_gather" {
				gathers = &k
			} else {
				name = k.name
			}
		}
		do(p.key(r, name), argument{s, g, true, inside(r.Phase), gathers})
	}
}

// fromInside tells whether an input was written inside of a microbatch, and is read there.
func fromInside(g *trace.Sig) bool {
	if g.From == nil {
		return false
	}
	phase, _ := producerOf(*g.From)
	return inside(phase)
}

// collected names what a collective gathers or adds up, if it is one tensor.
func collected(r *trace.Record) string {
	if r.Kind != "collective" || len(r.In) == 0 || r.In[0].From == nil {
		return ""
	}
	return *r.In[0].From
}

// made is the name of the Call that made what a producer's name stands for, if that is a collective that adds.
func (p *parts) made(lane int, r *trace.Record, from string) string {
	for range 8 { // sums of sums
		i := p.find(lane, r, from)
		if i < 0 {
			break
		}
		c := &p.lanes[lane][i]
		of := collected(c)
		if of == "" || c.Kernel != "all_reduce" && c.Kernel != "reduce_scatter" {
			break
		}
		from = of
	}
	return from
}

func (p *parts) key(r *trace.Record, name string) wholeKey {
	k := wholeKey{r.Iteration, r.Microbatch, name}
	if inside(r.Phase) {
		k.micro += r.Coord.DP * p.micro
		if !p.within {
			k.micro = everyMicro
		}
	}
	return k
}

// add adds a piece.
func (p *parts) add(k wholeKey, a argument) {
	sum, ok := trace.ParseSum(a.sig.Parts)
	place := *a.sig.Place
	if !ok || place.Check() != nil {
		return
	}
	w := p.wholes[k]
	if w == nil {
		w = &whole{dtype: a.sig.Dtype, shape: place.Whole, of: place.Elements(), pieces: map[string]string{}, gathers: a.gathers}
		if p.within && a.byToken {
			w.of /= p.dp * p.micro
		}
		p.wholes[k] = w
	}
	name := fmt.Sprint(place, a.sig.Numel)
	if was, copied := w.pieces[name]; copied {
		w.torn = w.torn || was != a.sig.Parts
		return
	}
	w.pieces[name] = a.sig.Parts
	w.sum, w.n, w.args = w.sum.Add(sum), w.n+a.sig.Numel, append(w.args, a)
	w.torn = w.torn || w.dtype != a.sig.Dtype || !slices.Equal(w.shape, place.Whole)
}

// complete tells whether all pieces of a whole are there, and nothing more.
func (w *whole) complete() bool { return w != nil && w.n == w.of }

// gathered tells whether what a collective of a run gathered is another thing than what its members had.
func (p *parts) gathered(k wholeKey) bool {
	w := p.wholes[k]
	if w == nil || w.gathers == nil || !w.complete() {
		return false
	}
	from := p.wholes[*w.gathers]
	return w.torn || from.complete() && !from.torn && from.sum != w.sum
}
