package checkpoint

import (
	"fmt"
	"math"
	"slices"
)

// Place says where what a rank has of a tensor lies in all of it, so that a run of another layout can find its part.
type Place struct {
	Whole  []int  `json:"whole,omitempty"`  // the shape of all of it
	Cuts   []Cut  `json:"cuts,omitempty"`   // how the rank's part is cut from it
	Lo     int    `json:"lo,omitempty"`     // the first of the part's elements, row-major, that the rank's file has
	Stream string `json:"stream,omitempty"` // or: a random stream, of this name on every rank that draws the same
}

// Cut is one dimension of which a rank has one of several equal parts.
type Cut struct {
	Dim   int `json:"dim"`
	Part  int `json:"part"`
	Parts int `json:"parts"`
}

// At is the tensor with a place.
func (t Tensor) At(p Place) Tensor {
	t.place = &p
	return t
}

// String is the place as checkpoint show prints it; empty: all of the tensor.
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

// part is the shape of the rank's part, and how many elements it and the whole have.
func (p *Place) part() (shape []int, n, whole int, err error) {
	shape, n, whole = slices.Clone(p.Whole), 1, 1
	for _, c := range p.Cuts {
		if c.Dim < 0 || c.Dim >= len(shape) || c.Parts < 1 || c.Part < 0 || c.Part >= c.Parts || shape[c.Dim]%c.Parts != 0 {
			return nil, 0, 0, fmt.Errorf("cut %+v: does not divide %v", c, p.Whole)
		}
		shape[c.Dim] /= c.Parts
	}
	for i, d := range p.Whole {
		if d < 1 || whole > math.MaxInt32/d {
			return nil, 0, 0, fmt.Errorf("shape %v: must have from 1 to %d elements", p.Whole, math.MaxInt32)
		}
		n, whole = n*shape[i], whole*d
	}
	return shape, n, whole, nil
}

// runs calls do for every run of elements that lies together in the whole: n of them, at from on among those of the file's
// tensor, at to in the whole.
func (p *Place) runs(elements int, do func(from, to, n int)) error {
	shape, n, _, err := p.part()
	if err != nil {
		return err
	}
	if p.Lo < 0 || p.Lo > n-elements {
		return fmt.Errorf("elements from %d on: the part has %d", p.Lo, n)
	}
	run := n // of the part, below the last dimension that is cut
	for d := range shape {
		if shape[d] != p.Whole[d] {
			run = 1
			for _, below := range shape[d:] {
				run *= below
			}
		}
	}
	for at := p.Lo; at < p.Lo+elements; {
		next := min(at-at%run+run, p.Lo+elements)
		do(at-p.Lo, p.index(shape, at), next-at)
		at = next
	}
	return nil
}

// index is where element i of a part lies in the whole.
func (p *Place) index(shape []int, i int) int {
	at, stride := 0, 1
	for d := len(shape) - 1; d >= 0; d-- {
		x := i % shape[d]
		i /= shape[d]
		first := 0 // of several cuts of one dimension each divides what the one before left
		extent := p.Whole[d]
		for _, c := range p.Cuts {
			if c.Dim == d {
				extent /= c.Parts
				first += c.Part * extent
			}
		}
		at += (first + x) * stride
		stride *= p.Whole[d]
	}
	return at
}
