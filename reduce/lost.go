package reduce

import (
	"errors"
	"slices"

	"firstbit/lowp"
)

// Lost tells whether a sum is the large leaf alone when some others are units: each less than half an ulp of it, and two together more.
// Leaves that are neither are nothing.
type Lost func(large int, units []int) (bool, error)

// RevealLost recovers the tree by which a sum adds n values, of which one can see no more than whether units are lost in a large value. It
// serves sums that no masks of opposite sign can cancel, of squares and of exponentials, and sums inside a function.
//
// Two units show if they meet each other before they meet the large value. Leaves are sorted by where they meet the path of one drawn at
// random; those that meet it at one node are the leaves of its other kid: about n·log²n questions. The tree is then replayed with more units.
//
// Errors: those of lost.
func RevealLost(n int, lost Lost) (Revealed, error) {
	b := byTriples{lost: lost, random: uint64(n)}
	t := b.build(upTo(0, n, 1)).canonical()
	found := Revealed{Tree: t, Calls: b.calls}
	switch {
	case b.err != nil && !errors.Is(b.err, errNoTree):
		return Revealed{}, b.err
	case b.err == nil:
		found.Class = classify(t, n)
		if err := b.replay(&found, n, func(x []float32) float32 { return t.Sum(x, lowp.FP32) }); found.Verified || err != nil {
			return found, err
		}
	}
	whole := adding(Exact, upTo(0, n, 1))
	if err := b.replay(&found, n, func(x []float32) float32 { return whole.Sum(x, lowp.FP32) }); err != nil {
		return found, err
	}
	if found.Verified {
		found.Tree, found.Class, found.Detail = whole, Exact.String(), "no order: units are never lost, as in an exact, a binned or a compensated sum"
		return found, nil
	}
	found.Tree, found.Class, found.Detail = Empty, "other", "no tree of additions of two: more values are added at once"
	return found, nil
}

type byTriples struct {
	lost   Lost
	random uint64
	calls  int
	err    error
}

// unit of the large value 1, in fp32.
const unitOfOne = 0.75 * 0x1p-24

// replay asks about random leaves, and sets Verified if all answers are those of a sum.
func (b *byTriples) replay(found *Revealed, n int, sum func(x []float32) float32) error {
	found.Verified = true
	x := make([]float32, n)
	for range 4 * replays {
		clear(x)
		large := int(b.next() % uint64(n))
		x[large] = 1
		var units []int
		for i := range x {
			if dense := b.next(); i != large && dense%4 == 0 {
				x[i] = unitOfOne
				units = append(units, i)
			}
		}
		found.Checks++
		lost, err := b.lost(large, units)
		if err != nil {
			return err
		}
		if found.Verified = found.Verified && lost == (sum(x) == 1); !found.Verified {
			return nil
		}
	}
	return nil
}

func (b *byTriples) next() uint64 {
	b.random += 0x9e3779b97f4a7c15
	return mix(b.random)
}

// ask tells whether leaves j and k meet each other before they meet i.
func (b *byTriples) ask(i, j, k int) bool {
	if b.err != nil {
		return false
	}
	b.calls++
	lost, err := b.lost(i, []int{j, k})
	b.err = err
	return !lost
}

func (b *byTriples) build(leaves []int) Tree {
	if len(leaves) == 0 {
		return Empty
	}
	at := int(b.next() % uint64(len(leaves)))
	leaves[0], leaves[at] = leaves[at], leaves[0]
	pivot, rest := leaves[0], slices.Clone(leaves[1:])
	slices.SortStableFunc(rest, func(j, k int) int { return b.closer(pivot, j, k) })
	t := Tree{Leaf: pivot}
	for len(rest) > 0 && b.err == nil {
		same := 1
		for same < len(rest) && b.closer(pivot, rest[0], rest[same]) == 0 {
			same++
		}
		t = Node(t, b.build(rest[:same:same]))
		rest = rest[same:]
	}
	return t
}

// closer compares where two leaves meet the path of a third.
func (b *byTriples) closer(pivot, j, k int) int {
	switch {
	case j == k || b.ask(pivot, j, k):
		return 0
	case b.ask(k, pivot, j):
		return -1
	case b.ask(j, pivot, k):
		return 1
	}
	if b.err == nil {
		b.err = errNoTree
	}
	return 0
}
