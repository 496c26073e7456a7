package run

import (
	"math"
	"slices"

	"firstbit/lowp"
	"firstbit/reduce"
)

// leafSet are elements of operands that are the leaves of one sum, and values of all others at which what a Call writes shows how it adds them.
type leafSet struct {
	at    []address
	leaf  []int // the number of each among all leaves of the sum
	n     int   // leaves of the sum
	base  operands
	curve curve
	times []float32 // what makes equal leaves of equal values: of each element a multiple; nil: once
}

// curve is what an element must be for its leaf to be large, to be lost in a large one though two together are not, and to be nothing.
type curve struct {
	name              string
	large, unit, none float32
}

// The ways in which a leaf depends on its element: as its multiple, its square or its exponential.
const (
	values       = "values"
	squares      = "squares"
	exponentials = "exponentials"
)

// nothing is a number of which the exponential is lost in 1 however often it is added.
const nothing = -80

// curves are for sums held in a format. A unit is three quarters, or two fifths, of half an ulp of a power of two: one of them serves whatever
// the large leaf is beside its power of two. Where a sum enters a function, that shows an ulp at some sizes only.
func curves(acc lowp.Format) (all []curve) {
	lost := acc.Unit()
	for _, part := range []float64{0.75, 0.4} {
		for _, size := range []float64{1, 64, 3} {
			all = append(all, curve{values, float32(size), float32(size * part * lost), 0})
		}
		for _, size := range []float64{1, 3, 0x1p20} {
			all = append(all, curve{squares, float32(size), float32(size * math.Sqrt(part*lost)), 0})
		}
		for _, size := range []float64{0, 1} {
			all = append(all, curve{exponentials, float32(size), float32(size + math.Log(part*lost)), nothing})
		}
	}
	return all
}

// view asks by one plan which leaves are lost in a large one.
type view struct {
	*probe
	by    reduce.Plan
	of    *leafSet
	see   []int               // some of what the Call writes that depends on the leaves; nil: all that it writes
	alone map[[2]int][]uint32 // what they are with a large leaf and at most one unit
	x     []float32
}

// seenMost bounds the elements that a view looks at.
const seenMost = 512

func (p *probe) view(by reduce.Plan, s *leafSet) *view {
	v := &view{probe: p, by: by, of: s, alone: map[[2]int][]uint32{}, x: make([]float32, len(s.at))}
	v.put(-1)
	none := p.written(nil)
	if len(none) <= seenMost {
		return v
	}
	for i := range min(len(s.at), 3) {
		v.put(i * (len(s.at) - 1) / 2 % len(s.at))
		for at, b := range p.written(nil) {
			if b != none[at] {
				v.see = append(v.see, at)
			}
		}
	}
	slices.Sort(v.see)
	v.see = slices.Compact(v.see)
	if many := len(v.see); many > seenMost {
		for i := range seenMost {
			v.see[i] = v.see[i*many/seenMost]
		}
		v.see = v.see[:seenMost]
	}
	return v
}

// put runs the Call with a leaf large and others units.
func (v *view) put(large int, units ...int) {
	for l := range v.x {
		v.x[l] = v.of.curve.none
	}
	if large >= 0 {
		v.x[large] = v.of.curve.large
	}
	for _, u := range units {
		v.x[u] = v.of.curve.unit
	}
	for l, w := range v.of.times {
		v.x[l] *= w
	}
	v.ask(v.by, v.of.base, v.of.at, v.x)
}

// one is what is seen with a large leaf and a unit, below 0 with none, which is asked once.
func (v *view) one(large, unit int) []uint32 {
	key := [2]int{large, unit}
	if v.alone[key] == nil {
		if unit < 0 {
			v.put(large)
		} else {
			v.put(large, unit)
		}
		v.alone[key] = v.written(v.see)
	}
	return v.alone[key]
}

// lost is a reduce.Lost: units beside a large leaf show in something that none of them changes by itself.
func (v *view) lost(large int, units []int) (bool, error) {
	bare := v.one(large, -1)
	single := make([][]uint32, len(units))
	for i, u := range units {
		single[i] = v.one(large, u)
	}
	v.put(large, units...)
	all := v.written(v.see)
	for at, b := range bare {
		if all[at] != b && !slices.ContainsFunc(single, func(s []uint32) bool { return s[at] != b }) {
			return false, v.err
		}
	}
	return true, v.err
}
