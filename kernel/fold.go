// Package kernel is arithmetic on flat slices, each sum in a given order.
//
// Every kernel takes its reductions as Folds: the order of addition is an argument, never
// a property of the code. Kernels are generic over float32, which trains, and float64, which checks
// gradients and holds the model against references.
package kernel

import (
	"sync"

	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// Fold is a reduction ready to run: a concrete order for N leaves, the formats that
// partial sums are rounded to, and whether products are fused into the sum.
//
// In float64 formats, FMA and MMA are ignored: that width exists for references.
type Fold struct {
	*reduce.Program
	Acc         lowp.Format
	Store, Wire lowp.Format // see reduce.Formats
	FMA         bool
	Race        Race      // threads share the sum, where its kernel lets them; the program has the order in which all come in their turn
	MMA         *lowp.MMA // chains are those of a tensor core's fused sums, each adding as many products as it takes; nil: leaves are added one by one
}

// Tile is a part of the values of a sum: those from Start on, Stride apart, as many as its Fold has leaves.
type Tile struct {
	Start, Stride int
	Fold
}

// FoldOf is a named reduction of a plan by a concrete order for n leaves.
func FoldOf(r reduce.Reduction, n int) Fold {
	return Fold{Program: r.Order.Program(n), Acc: r.Acc, Store: r.Store, Wire: r.Wire, FMA: r.FMA}
}

// Plain tells whether partial sums are plain additions of two at the width of T: neither rounded further nor, of products, fused.
func Plain[T libm.Float](f Fold) bool { return adds[T](f) && !(f.FMA && single[T]()) }

// Fused tells whether sums are plain additions of two float32, but products are fused into them.
func Fused[T libm.Float](f Fold) bool { return f.FMA && single[T]() && adds[T](f) }

// adds is Plain of a sum whose leaves are no products.
func adds[T libm.Float](f Fold) bool {
	return f.Chained && (!single[T]() || f.Acc == lowp.FP32 && f.MMA == nil && f.level())
}

func single[T libm.Float]() bool {
	var z T
	_, is := any(z).(float32)
	return is
}

// level tells whether partial sums are stored and sent as wide as they are added.
func (f Fold) level() bool { return f.Store == lowp.FP32 && f.Wire == lowp.FP32 }

// simple tells whether a fold adds by chains and additions of two, each rounded to one format that is no wider than float32.
func (f Fold) simple() bool { return f.Chained && f.level() && f.Acc != lowp.FP64 }

// Leaf is the leaf at a position of the program.
func (f Fold) Leaf(pos int) int {
	if f.Perm == nil {
		return pos
	}
	return int(f.Perm[pos])
}

// Visit calls do for every leaf in the order in which the chains of the fold consume them.
func (f Fold) Visit(do func(pos, leaf int)) {
	pos := 0
	for _, s := range f.Steps {
		for c := range s.Count {
			do(pos, f.Leaf(s.Start+c*s.Stride))
			pos++
		}
	}
}

// Negzero is −0, where every accumulator starts: −0 + x = x for every x.
func Negzero[T libm.Float]() T {
	var z T
	return -1 / (1 / z) // −1/∞
}

// Join is the one addition of two partial sums outside the fast paths.
func Join[T libm.Float](f Fold, a, b T) T {
	s := a + b
	if x, ok := any(s).(float32); ok && f.Acc != lowp.FP32 {
		return T(f.Acc.Round(x))
	}
	return s
}

// enter is a leaf as it enters a sum: a value of the accumulate format.
func enter[T libm.Float](f Fold, leaf T) T {
	if x, ok := any(leaf).(float32); ok && f.Acc != lowp.FP32 {
		return T(f.Acc.Round(x))
	}
	return leaf
}

// MulAdd is acc + a·b by the Fold: the product rounded first, or fused.
func MulAdd[T libm.Float](f Fold, acc, a, b T) T {
	if f.FMA {
		if x, ok := any(acc).(float32); ok {
			return T(f.Acc.Round(lowp.FMA32(float32(a), float32(b), x)))
		}
	}
	return Join(f, acc, enter(f, T(a*b)))
}

// Run folds the N values leaf returns. It is the definition of a Fold; the fast paths of
// kernels agree with it bit for bit.
func Run[T libm.Float](f Fold, leaf func(i int) T) T {
	return run(f, func(acc T, i int) T { return Join(f, acc, enter(f, leaf(i))) })
}

// Sum folds x[0], x[stride], …: N values.
func Sum[T libm.Float](f Fold, x []T, stride int) T {
	if f.InOrder && adds[T](f) {
		acc := Negzero[T]()
		for i, n := 0, f.N*stride; i < n; i += stride {
			acc += x[i]
		}
		return acc
	}
	if by := f.whole(); by.AnyOrder() && stride == 1 && f.Acc == lowp.FP32 && f.level() {
		return reduce.AddBy(by, x[:f.N], f.Acc)
	}
	if x, ok := any(x).([]float32); ok && stride == 1 && adds[T](f) && f.Lanes(reduce.Lanes) {
		return T(sumLanes(f, x[:f.N]))
	}
	return Run(f, func(i int) T { return x[i*stride] })
}

// Lanes tells whether the chains of f are as many strided lanes, however they are joined.
func (f Fold) Lanes(lanes int) bool {
	if f.Perm != nil || f.N < lanes || f.Depth > lanes {
		return false
	}
	chains := 0
	for _, s := range f.Steps {
		if s.Join > 0 {
			continue
		}
		chains++
		if chains > lanes || s.Stride != lanes || s.Start >= lanes || s.Count != (f.N-s.Start+lanes-1)/lanes {
			return false
		}
	}
	return chains == lanes
}

// sumLanes is the sum by a plain fold of eight lanes.
func sumLanes(f Fold, x []float32) float32 {
	var lanes [reduce.Lanes]float32
	Fill(lanes[:], Negzero[float32]())
	reduce.AddLanes(&lanes, x)
	return JoinLanes(f, &lanes)
}

// JoinLanes is the sum by a plain fold of eight lanes whose values are added up already.
func JoinLanes[T libm.Float](f Fold, lanes *[reduce.Lanes]T) T {
	var stack [reduce.Lanes]T
	top := 0
	for _, s := range f.Steps {
		if s.Join > 0 {
			top--
			stack[top-1] += stack[top]
			continue
		}
		stack[top] = lanes[s.Start]
		top++
	}
	return stack[0]
}

// whole is the adder of a fold that adds all its leaves at once; Rounded: it does not.
func (f Fold) whole() reduce.Adder {
	if len(f.Steps) != 1 {
		return reduce.Rounded
	}
	return f.Steps[0].By
}

// Dot folds the products x[i·sx]·y[i·sy]: N of them.
func Dot[T libm.Float](f Fold, x []T, sx int, y []T, sy int) T {
	if f.InOrder && Plain[T](f) {
		acc := Negzero[T]()
		for i := range f.N {
			acc += T(x[i*sx] * y[i*sy])
		}
		return acc
	}
	if f.InOrder && Fused[T](f) {
		acc := Negzero[float32]()
		for i := range f.N {
			acc = lowp.FMA32(float32(x[i*sx]), float32(y[i*sy]), acc)
		}
		return T(acc)
	}
	return run(f, func(acc T, i int) T { return MulAdd(f, acc, x[i*sx], y[i*sy]) })
}

// SumRows folds rows into dst: dst[j] is the fold over i of src[i·ld + j].
func SumRows[T libm.Float](f Fold, dst, src []T, ld int) {
	SumRowsAt(f, dst, src, ld, nil)
}

// SumRowsAt is SumRows over the rows index names: row i is src[index[i]·ld:]; a nil
// index stands for 0, 1, 2, …
func SumRowsAt[T libm.Float](f Fold, dst, src []T, ld int, index []int32) {
	n := len(dst)
	if f.Raced(n) {
		raceRowsAt(f, dst, src, ld, index)
		return
	}
	row := func(i int) []T {
		if index != nil {
			i = int(index[i])
		}
		return src[i*ld:][:n]
	}
	if f.InOrder && adds[T](f) {
		Fill(dst, Negzero[T]())
		for i := range f.N {
			for j, v := range row(i) {
				dst[j] += v
			}
		}
		return
	}
	RunRows(f, dst, func(acc []T, step reduce.Step) {
		for c := range step.Count {
			addRow(f, acc, row(f.Leaf(step.Start+c*step.Stride)))
		}
	})
}

// addRow adds a row of leaves to an accumulator.
func addRow[T libm.Float](f Fold, acc, row []T) {
	row = row[:len(acc)]
	if adds[T](f) {
		for j, v := range row {
			acc[j] += v
		}
		return
	}
	for j, v := range row {
		acc[j] = Join(f, acc[j], enter(f, v))
	}
}

// Fill sets every element of x to v.
func Fill[T libm.Float](x []T, v T) {
	for i := range x {
		x[i] = v
	}
}

var scratch32, scratch64 sync.Pool

// Borrow takes a slice of n elements, not cleared, from a pool.
func Borrow[T libm.Float](n int) *[]T {
	s, _ := poolOf[T]().Get().(*[]T)
	if s == nil {
		s = new([]T)
	}
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return s
}

// GiveBack returns what Borrow took.
func GiveBack[T libm.Float](s *[]T) { poolOf[T]().Put(s) }

func poolOf[T libm.Float]() *sync.Pool {
	var z T
	if _, wide := any(z).(float64); wide {
		return &scratch64
	}
	return &scratch32
}
