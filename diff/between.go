package diff

import (
	"slices"
	"strings"

	"firstbit/trace"
)

// between is the wholes of two runs, and how far apart they may be.
type between struct {
	side   [2]*parts
	dirs   [2]string
	within *Within // nil: bits are compared
	found  map[wholeKey]distance
}

// distance is how a whole of one run stands to that of the other.
type distance uint8

const (
	notCompared distance = iota
	equalBits
	near    // other bits, no further apart than they may be
	far     // further, or other bits where only these are compared
	unknown // other bits, and not all were dumped
)

// of compares a whole.
func (b *between) of(k wholeKey) distance {
	d, seen := b.found[k]
	if !seen {
		d = b.compare(k)
		b.found[k] = d
	}
	return d
}

func (b *between) compare(k wholeKey) distance {
	x, y := b.side[0].wholes[k], b.side[1].wholes[k]
	switch {
	case !x.complete() || !y.complete() || x.gathers != nil || y.gathers != nil || x.dtype != y.dtype || !slices.Equal(x.shape, y.shape):
		return notCompared
	case x.torn || y.torn:
		return far
	case x.sum == y.sum:
		return equalBits
	case b.within == nil:
		return far
	case strings.Contains(k.name, "<"): // of an input there are no dumps
		return notCompared
	}
	return b.within.wholes([2]*whole{x, y}, b.side, b.dirs)
}

// differs is the first of what a record of run A reads or writes that differs, and how; false: nothing does.
func (b *between) differs(s spot, as func(distance) bool) (k wholeKey, found bool) {
	r := &b.side[0].lanes[s.lane][s.at]
	clipped := r.Kind == "optim" && b.clipped(r) // by another norm: what it writes follows
	b.side[0].each(s, func(key wholeKey, a argument) {
		if !found && !(clipped && a.output) && (as(b.of(key)) || b.side[0].gathered(key)) {
			k, found = key, true
		}
	})
	return k, found
}

// clipped tells whether an update of run A has another norm of the gradient than run B's.
func (b *between) clipped(r *trace.Record) bool {
	for l := range b.side[1].lanes {
		i := b.side[1].find(l, r, r.Phase+" "+trace.Path(r.Scope, r.Name))
		if i < 0 {
			continue
		}
		o := &b.side[1].lanes[l][i]
		for j := range r.In {
			if r.In[j].Name == "norm" && j < len(o.In) && !sigEqual(&r.In[j], &o.In[j]) {
				return true
			}
		}
		return false
	}
	return false
}

// compared tells whether all that a record of a run writes is compared with what the other has.
func (b *between) compared(side int, s spot) bool {
	r, n := &b.side[side].lanes[s.lane][s.at], 0
	b.side[side].each(s, func(k wholeKey, a argument) {
		if a.output && b.of(k) != notCompared {
			n++
		}
	})
	return n > 0 && n >= len(r.Out)
}
