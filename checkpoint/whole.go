package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"firstbit/state"
)

// Whole is the state of a run put together from all ranks' files: what no layout is part of, and the random streams by name.
type Whole struct {
	Tensors []Tensor // in order of their names
	Streams []Tensor // named as their places say
}

// errPlaces is about a checkpoint from before places were kept.
var errPlaces = errors.New("the checkpoint does not say where its tensors lie, so it continues on its own layout only")

// gathering is a tensor of which some elements have come.
type gathering struct {
	Tensor
	from []int32 // the rank that brought an element, counted from 1
}

// Assemble puts the state together. What several ranks have must be the same bits.
func (c *Checkpoint) Assemble() (*Whole, error) {
	found, have := map[string]*gathering{}, map[string]int{}
	for _, f := range c.Files {
		for _, e := range f.Tensors {
			have[e.Name] += elements(e.Shape)
		}
	}
	for rank, f := range c.Files {
		for i, e := range f.Tensors {
			if e.Place == nil {
				return nil, errPlaces
			}
			t := c.Ranks[rank].Tensors[i]
			name, place := e.Place.Key(e.Name), e.Place.Of(t.Shape)
			bad := func(err error) error { return fmt.Errorf("tensor %q of %s: %w", e.Name, f.Name, err) }
			g := found[name]
			if g == nil {
				var err error
				if g, err = begin(t, place, have[e.Name]); err != nil {
					return nil, bad(err)
				}
				if found[name] = g; e.Place.Stream != "" {
					g.Name = e.Place.Stream
				}
			}
			other, err := g.add(t, place, rank)
			if err != nil {
				return nil, bad(err)
			}
			if other > 0 {
				return nil, fmt.Errorf("tensor %q: %s and %s hold other bits: what several ranks have must be the same", e.Name, rankFile(other-1), f.Name)
			}
		}
	}
	return collect(found)
}

// begin makes room for a tensor of which all ranks together have so many elements.
func begin(t Tensor, p state.Place, have int) (*gathering, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	whole := p.Elements()
	if whole > have {
		return nil, fmt.Errorf("shape %v: has %d elements, and the ranks' files together %d", p.Whole, whole, have)
	}
	size := len(t.data) / max(t.Len(), 1)
	return &gathering{Tensor{Name: t.Name, Shape: p.Whole, format: t.format, data: make([]byte, whole*size)}, make([]int32, whole)}, nil
}

// add lays a rank's part down, and returns the rank, counted from 1, that has other bits of it; 0: none.
func (g *gathering) add(t Tensor, p state.Place, rank int) (other int, err error) {
	if t.format != g.format || !slices.Equal(p.Whole, g.Shape) {
		return 0, fmt.Errorf("is %s of %v: another rank's is %s of %v", t.format, p.Whole, g.format, g.Shape)
	}
	size := len(g.data) / len(g.from)
	err = p.Runs(t.Len(), func(from, to, n int) {
		part, all := t.data[from*size:(from+n)*size], g.data[to*size:(to+n)*size]
		for i := range n {
			x, y := part[i*size:(i+1)*size], all[i*size:(i+1)*size]
			switch was := g.from[to+i]; {
			case was == 0:
				copy(y, x)
				g.from[to+i] = int32(rank + 1)
			case other == 0 && !bytes.Equal(x, y):
				other = int(was)
			}
		}
	})
	return other, err
}

func collect(found map[string]*gathering) (*Whole, error) {
	w := &Whole{}
	for name, g := range found { // sorted below
		if i := slices.Index(g.from, 0); i >= 0 {
			return nil, fmt.Errorf("tensor %q: no rank's file has element %d", g.Name, i)
		}
		if name != g.Name {
			w.Streams = append(w.Streams, g.Tensor)
		} else {
			w.Tensors = append(w.Tensors, g.Tensor)
		}
	}
	byName := func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(w.Tensors, byName)
	slices.SortFunc(w.Streams, byName)
	return w, nil
}

// Part cuts what a place says from a tensor of the whole, in the shape that a rank has it in.
func (w *Whole) Part(name string, p state.Place, shape []int) (Tensor, error) {
	all, ok := (&File{Tensors: w.Tensors}).Tensor(name)
	if !ok {
		return Tensor{}, fmt.Errorf("tensor %q: is missing", name)
	}
	if !slices.Equal(all.Shape, p.Whole) {
		return Tensor{}, fmt.Errorf("tensor %q: shape %v: must be %v", name, all.Shape, p.Whole)
	}
	t := Tensor{Name: name, Shape: slices.Clone(shape), format: all.format}
	size := len(all.data) / all.Len()
	t.data = make([]byte, t.Len()*size)
	err := p.Runs(t.Len(), func(from, to, n int) {
		copy(t.data[from*size:(from+n)*size], all.data[to*size:])
	})
	if err != nil {
		return t, fmt.Errorf("tensor %q: %w", name, err)
	}
	return t, nil
}

// Stream is the state of the random stream of a name.
func (w *Whole) Stream(name string) (Tensor, bool) { return (&File{Tensors: w.Streams}).Tensor(name) }

// Differ names the first tensor in which another's state is not this one's; empty: none. Streams do not count.
func (w *Whole) Differ(other *Whole) string {
	for i, t := range w.Tensors {
		switch {
		case i >= len(other.Tensors) || other.Tensors[i].Name != t.Name:
			return fmt.Sprintf("tensor %q: is missing, or another is there", t.Name)
		case !t.Same(other.Tensors[i]):
			return fmt.Sprintf("tensor %q", t.Name)
		}
	}
	if len(other.Tensors) > len(w.Tensors) {
		return fmt.Sprintf("tensor %q: must not be there", other.Tensors[len(w.Tensors)].Name)
	}
	return ""
}
