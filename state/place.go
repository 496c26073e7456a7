package state

import (
	"fmt"
	"math"
	"slices"
)

// Place says where what a rank has of a tensor lies in all of it, so that a run of another layout can find its part.
//
// The cuts leave of every dimension one run of indices. The elements of these, row-major, are the rank's part of the tensor, of which a
// piece is the elements from Lo on: as many as its tensor has. A distributed optimizer cuts parts into such pieces, without padding.
type Place struct {
	Whole  []int  `json:"whole,omitempty"`  // the shape of all of it
	Cuts   []Cut  `json:"cuts,omitempty"`   // how the rank's part is cut from it
	Lo     int    `json:"lo,omitempty"`     // the first of the part's elements, row-major, that the piece has
	Stream string `json:"stream,omitempty"` // or: a random stream, of this name on every rank that draws the same
}

// Cut is one dimension of which a rank has one of several equal parts. Of several cuts of one dimension each divides what the one
// before left.
type Cut struct {
	Dim   int `json:"dim"`
	Part  int `json:"part"`
	Parts int `json:"parts"`
}

// From is the place of a part's elements from lo on.
func (p Place) From(lo int) Place {
	p.Lo = lo
	return p
}

// Key tells wholes of one name apart: random streams are others on ranks that draw other numbers.
func (p Place) Key(name string) string {
	if p.Stream != "" {
		return "stream " + p.Stream
	}
	return name
}

// Of is the place of a piece with a tensor of such a shape: every rank that has a random stream has all of it.
func (p Place) Of(shape []int) Place {
	if p.Stream != "" {
		return Place{Whole: shape}
	}
	return p
}

// Equal tells whether two pieces of equal length have the same elements.
func (p Place) Equal(q Place) bool {
	return p.Lo == q.Lo && p.Stream == q.Stream && slices.Equal(p.Whole, q.Whole) && slices.Equal(p.Cuts, q.Cuts)
}

// String is the place as checkpoint show prints it; empty: all of the tensor, or not known.
func (p *Place) String() string {
	if p == nil {
		return ""
	}
	text := ""
	for _, c := range p.Cuts {
		text += fmt.Sprintf("  part %d of %d along %d", c.Part+1, c.Parts, c.Dim)
	}
	if p.Lo > 0 {
		text += fmt.Sprintf("  from element %d", p.Lo)
	}
	if p.Stream != "" {
		text += "  stream " + p.Stream
	}
	return text
}

// Check reports what no tensor can have for a place.
func (p Place) Check() error {
	shape, whole := slices.Clone(p.Whole), 1
	for _, c := range p.Cuts {
		if c.Dim < 0 || c.Dim >= len(shape) || c.Parts < 1 || c.Part < 0 || c.Part >= c.Parts || shape[c.Dim]%c.Parts != 0 {
			return fmt.Errorf("cut %+v: does not divide %v", c, p.Whole)
		}
		shape[c.Dim] /= c.Parts
	}
	for _, d := range p.Whole {
		if d < 1 || whole > math.MaxInt32/d {
			return fmt.Errorf("shape %v: must have from 1 to %d elements", p.Whole, math.MaxInt32)
		}
		whole *= d
	}
	return nil
}

// Elements is the number of elements of the whole.
func (p Place) Elements() int { return product(p.Whole) }

// Part is the shape of the rank's part.
func (p Place) Part() []int {
	shape := make([]int, len(p.Whole))
	for d := range shape {
		_, shape[d] = p.run(d)
	}
	return shape
}

// run is the indices of a dimension that the part has: n of them, from first on.
func (p Place) run(dim int) (first, n int) {
	n = p.Whole[dim]
	for _, c := range p.Cuts {
		if c.Dim == dim {
			n /= c.Parts
			first += c.Part * n
		}
	}
	return first, n
}

// Index is where element i of the piece lies in the whole, row-major.
func (p Place) Index(i int) int {
	i += p.Lo
	if len(p.Cuts) == 0 {
		return i
	}
	at, stride := 0, 1
	for d := len(p.Whole) - 1; d >= 0; d-- {
		first, n := p.run(d)
		at += (first + i%n) * stride
		i /= n
		stride *= p.Whole[d]
	}
	return at
}

// Find is Index backwards: which of a piece's n elements lies at an index of the whole; false: none does.
func (p Place) Find(at, n int) (i int, ok bool) {
	if len(p.Cuts) == 0 {
		i = at
	} else {
		stride := 1
		for d := len(p.Whole) - 1; d >= 0; d-- {
			first, extent := p.run(d)
			x := at%p.Whole[d] - first
			if x < 0 || x >= extent {
				return 0, false
			}
			at /= p.Whole[d]
			i += x * stride
			stride *= extent
		}
	}
	i -= p.Lo
	return i, i >= 0 && i < n
}

// Runs calls do for every run of elements that lies together in the whole: n of them, from element from of the piece on, at to in the
// whole. It is an error if the place cannot be, or that of a piece of so many elements.
func (p Place) Runs(elements int, do func(from, to, n int)) error {
	if err := p.Check(); err != nil {
		return err
	}
	shape := p.Part()
	n := product(shape)
	if p.Lo < 0 || p.Lo > n-elements {
		return fmt.Errorf("elements from %d on: the part has %d", p.Lo, n)
	}
	run := n // of the part, below the last dimension that is cut
	for d := range shape {
		if shape[d] != p.Whole[d] {
			run = product(shape[d:])
		}
	}
	for from := 0; from < elements; {
		next := min(from+run-(p.Lo+from)%run, elements)
		do(from, p.Index(from), next-from)
		from = next
	}
	return nil
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
