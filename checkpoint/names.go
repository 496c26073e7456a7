package checkpoint

import (
	"fmt"
	"slices"

	"firstbit/device"
	"firstbit/model"
	"firstbit/nn"
	"firstbit/ssm"
)

// A slot is a tensor of the model that a file has values for: a weight, or a router's bias,
// which no gradient moves but every choice depends on.
type slot struct {
	name   string
	tensor *device.Tensor // of a weight, the master
	param  *nn.Param      // nil for a bias
	ssm    ssm.Config     // of the model: the shape of what it has by groups
}

// slots lists the model's tensors, weights in forward order before biases.
func slots(m *model.Model) (s []slot) {
	for _, p := range m.Params() {
		s = append(s, slot{p.Name, p.Master, p, m.SSM})
	}
	for _, r := range m.Routers() {
		if !r.Shared {
			s = append(s, slot{r.Scope + ".bias", r.Bias, nil, m.SSM})
		}
	}
	return s
}

// set rounds the values once to the master's format, and from there to the weight's.
func (s slot) set(x []float64) {
	for i, v := range x {
		s.tensor.Set(i, v)
	}
	if s.param != nil {
		s.param.W.CopyFrom(s.tensor)
	}
}

// A reader looks for tensors in a file and sets them all at the end, if none was missing.
type reader struct {
	tensors map[string]Tensor
	used    map[string]bool
	slots   []slot
	values  [][]float64
	err     error // the first
}

func newReader(f *File, rename func(string) string) *reader {
	r := &reader{tensors: map[string]Tensor{}, used: map[string]bool{}}
	for _, t := range f.Tensors {
		name := rename(t.Name)
		if other, twice := r.tensors[name]; twice {
			r.fail("tensor %q: is there twice, also as %q", t.Name, other.Name)
		}
		r.tensors[name] = t
	}
	return r
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// take is the elements of a tensor that must be there in the given shape.
func (r *reader) take(name string, shape []int) []float64 {
	t, ok := r.tensors[name]
	r.used[name] = true
	switch {
	case !ok:
		r.fail("tensor %q: is missing: the model needs it as %v", name, shape)
	case !slices.Equal(t.Shape, shape):
		r.fail("tensor %q: shape %v: must be %v", t.Name, t.Shape, shape)
	default:
		x, err := t.Values()
		if err != nil {
			r.fail("%w", err)
		}
		return x
	}
	return nil
}

// read finds a slot's values under a name of the file's and in its layout.
func (r *reader) read(s slot, name string, l layout) {
	r.keep(s, r.take(name, l.shape(s.tensor.Shape())), l)
}

func (r *reader) keep(s slot, x []float64, l layout) {
	if r.err == nil {
		r.slots, r.values = append(r.slots, s), append(r.values, s.ours(x, l))
	}
}

// finish sets the slots if all is well. Tensors that were not asked for are refused unless
// they may be ignored.
func (r *reader) finish(ignored func(name string) bool) error {
	var left []string
	for name := range r.tensors { // sorted below
		if !r.used[name] && (ignored == nil || !ignored(name)) {
			left = append(left, r.tensors[name].Name)
		}
	}
	if len(left) > 0 {
		r.fail("tensor %q: the model has no place for it", slices.Min(left))
	}
	if r.err != nil {
		return r.err
	}
	for i, s := range r.slots {
		s.set(r.values[i])
	}
	return nil
}

// A layout is how a tensor of ours lies in a file.
type layout int

const (
	plain      layout = iota // as it is
	transposed               // the last two extents swapped
	projected                // transposed, and rows that are all of z, then of x, b, c and dt, where our columns come group by group
	channels                 // all of x, then of b and c, where ours come group by group
	channelled               // the same, and (C,K) as (C,1,K), a convolution of groups of one channel
)

// shape is the file's, of one of ours.
func (l layout) shape(ours []int) []int {
	s, n := slices.Clone(ours), len(ours)
	switch l {
	case transposed, projected:
		s[n-1], s[n-2] = s[n-2], s[n-1]
	case channelled:
		s = slices.Insert(s, n-1, 1)
	}
	return s
}

// columns is where each of our columns or channels is in the file; nil: where it is with us.
func (s slot) columns(l layout) []int {
	switch l {
	case projected:
		return s.ssm.Columns()
	case channels, channelled:
		return s.ssm.ConvChannels()
	}
	return nil
}

// ours brings a file's elements in our order.
func (s slot) ours(x []float64, l layout) []float64 {
	if columns := s.columns(l); columns != nil {
		y, n := make([]float64, len(x)), len(x)/len(columns)
		for i, at := range columns {
			copy(y[i*n:][:n], x[at*n:])
		}
		x = y
	}
	if l == transposed || l == projected {
		shape := l.shape(s.tensor.Shape())
		return transpose(x, shape[len(shape)-2], shape[len(shape)-1])
	}
	return x
}

// theirs is the inverse of ours.
func (s slot) theirs(x []float64, l layout) []float64 {
	if l == transposed || l == projected {
		shape := s.tensor.Shape()
		x = transpose(x, shape[len(shape)-2], shape[len(shape)-1])
	}
	if columns := s.columns(l); columns != nil {
		y, n := make([]float64, len(x)), len(x)/len(columns)
		for i, at := range columns {
			copy(y[at*n:][:n], x[i*n:])
		}
		x = y
	}
	return x
}

// transpose turns matrices (rows,cols), one after another, into (cols,rows).
func transpose(x []float64, rows, cols int) []float64 {
	y := make([]float64, len(x))
	for at := 0; at < len(x); at += rows * cols {
		for i := range rows {
			for j := range cols {
				y[at+j*rows+i] = x[at+i*cols+j]
			}
		}
	}
	return y
}
