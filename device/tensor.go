package device

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"firstbit/lowp"
)

// Tensor is a dense row-major array with the format its values are held to.
//
// Storage is float32 for every float format up to 32 bits (each value being one
// of the format's), float64 for fp64, int32 for int32. Package dense shows it to a tensor library.
type Tensor struct {
	Format lowp.Format
	// From is the producer, "phase path" (with "#out" where it has several
	// outputs); empty before the first write.
	From string

	shape []int
	f32   []float32
	f64   []float64
	i32   []int32
}

// NewTensor makes a tensor of zeros.
func NewTensor(f lowp.Format, shape ...int) *Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	t := &Tensor{Format: f, shape: slices.Clone(shape)}
	if len(shape) == 0 {
		t.shape = []int{1}
	}
	switch {
	case f == lowp.FP64:
		t.f64 = make([]float64, n)
	case f.Float():
		t.f32 = make([]float32, n)
	default:
		t.i32 = make([]int32, n)
	}
	return t
}

// Shape is the extents, outermost first.
func (t *Tensor) Shape() []int { return t.shape }

// Dim is extent i.
func (t *Tensor) Dim(i int) int { return t.shape[i] }

// Rows is the product of all extents but the last.
func (t *Tensor) Rows() int { return t.Len() / t.Cols() }

// Cols is the last extent.
func (t *Tensor) Cols() int { return t.shape[len(t.shape)-1] }

// Len is the number of elements.
func (t *Tensor) Len() int { return len(t.f32) + len(t.f64) + len(t.i32) }

// F32 is the storage of a float tensor of at most 32 bits, else nil.
func (t *Tensor) F32() []float32 { return t.f32 }

// F64 is the storage of an fp64 tensor, else nil.
func (t *Tensor) F64() []float64 { return t.f64 }

// I32 is the storage of an int32 tensor, else nil.
func (t *Tensor) I32() []int32 { return t.i32 }

// Value is element i as a float64, whatever the format.
func (t *Tensor) Value(i int) float64 {
	switch {
	case t.f32 != nil:
		return float64(t.f32[i])
	case t.f64 != nil:
		return t.f64[i]
	}
	return float64(t.i32[i])
}

// Bits is element i as hex bits at its stored width, every NaN as lowp's one.
func (t *Tensor) Bits(i int) string {
	switch {
	case t.f32 != nil:
		return fmt.Sprintf("%08x", lowp.FP32.Encode(t.f32[i]))
	case t.f64 != nil:
		return fmt.Sprintf("%016x", lowp.Bits(t.f64[i]))
	}
	return fmt.Sprintf("%08x", uint32(t.i32[i]))
}

// NonFinite is the first element that is NaN or infinite; −1: none is.
func (t *Tensor) NonFinite() int {
	if lowp.Finite(t.f32) && lowp.Finite64(t.f64) {
		return -1
	}
	for i := range t.Len() {
		if v := t.Value(i); v-v != 0 {
			return i
		}
	}
	return -1
}

// Set stores x, rounded to the format, as element i. Integers saturate, and NaN is 0: Go leaves such conversions to the processor.
func (t *Tensor) Set(i int, x float64) {
	switch {
	case t.f32 != nil:
		t.f32[i] = t.Format.Round(float32(x))
	case t.f64 != nil:
		t.f64[i] = x
	default:
		t.i32[i] = 0
		if x == x {
			t.i32[i] = int32(min(max(x, math.MinInt32), math.MaxInt32)) // fits: it saturates
		}
	}
}

// CopyFrom copies the values of s, rounding to the format of t.
func (t *Tensor) CopyFrom(s *Tensor) {
	if t.Len() != s.Len() {
		panic("device: CopyFrom of another size")
	}
	if t.f32 != nil && s.f32 != nil {
		copy(t.f32, s.f32)
		t.Format.RoundSlice(t.f32)
		return
	}
	for i := range t.Len() {
		t.Set(i, s.Value(i))
	}
}

// View is elements lo to hi of t as a tensor of one dimension on the same storage.
func (t *Tensor) View(lo, hi int) *Tensor {
	v := &Tensor{Format: t.Format, From: t.From, shape: []int{hi - lo}}
	switch {
	case t.f64 != nil:
		v.f64 = t.f64[lo:hi:hi]
	case t.i32 != nil:
		v.i32 = t.i32[lo:hi:hi]
	default:
		v.f32 = t.f32[lo:hi:hi]
	}
	return v
}

// Alias has t lie where s, of the same format and at least as long, has its first elements: what is written to one is written to the other.
func (t *Tensor) Alias(s *Tensor) {
	n := t.Len()
	if t.Format != s.Format || s.Len() < n {
		panic("device: Alias of another format, or of less")
	}
	v := s.View(0, n)
	t.f32, t.f64, t.i32 = v.f32, v.f64, v.i32
}

// LiesIn tells whether t, of the format of s and no longer than what follows there, has its storage where s has elements from at on.
func (t *Tensor) LiesIn(s *Tensor, at int) bool {
	return begins(t.f32, s.f32, at) && begins(t.f64, s.f64, at) && begins(t.i32, s.i32, at)
}

func begins[T any](x, whole []T, at int) bool { return len(x) == 0 || &x[0] == &whole[at] }

// Span is the addresses of the storage: two tensors share memory where theirs overlap.
func (t *Tensor) Span() (lo, hi uintptr) {
	switch {
	case len(t.f32) > 0:
		lo = uintptr(unsafe.Pointer(&t.f32[0]))
		return lo, lo + 4*uintptr(len(t.f32))
	case len(t.f64) > 0:
		lo = uintptr(unsafe.Pointer(&t.f64[0]))
		return lo, lo + 8*uintptr(len(t.f64))
	case len(t.i32) > 0:
		lo = uintptr(unsafe.Pointer(&t.i32[0]))
		return lo, lo + 4*uintptr(len(t.i32))
	}
	return 0, 0
}

// CopyAt copies the values of s, of the same format, to the elements of t from at on.
func (t *Tensor) CopyAt(at int, s *Tensor) {
	if t.Format != s.Format {
		panic("device: CopyAt of another format")
	}
	copy(t.f32[min(at, len(t.f32)):], s.f32)
	copy(t.f64[min(at, len(t.f64)):], s.f64)
	copy(t.i32[min(at, len(t.i32)):], s.i32)
}

// reshape gives t another shape if its memory is of the format and large enough for it. What it held is lost.
func (t *Tensor) reshape(f lowp.Format, shape []int) bool {
	if t.Format != f {
		return false
	}
	if slices.Equal(t.shape, shape) {
		return true
	}
	n := 1
	for _, d := range shape {
		n *= d
	}
	if n > cap(t.f32)+cap(t.f64)+cap(t.i32) {
		return false
	}
	v := Tensor{Format: f, From: t.From, shape: slices.Clone(shape)}
	if len(shape) == 0 {
		v.shape = []int{1}
	}
	switch {
	case t.f64 != nil:
		v.f64 = t.f64[:n]
	case t.i32 != nil:
		v.i32 = t.i32[:n]
	default:
		v.f32 = t.f32[:n]
	}
	*t = v
	return true
}
