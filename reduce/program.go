package reduce

import (
	"slices"
	"sync/atomic"
)

// Program is a concrete order for N values, flattened into steps of a stack machine, the
// form kernels run.
type Program struct {
	N       int
	Steps   []Step
	Perm    []int32 // nil: position i is value i; else value Perm[i]
	Depth   int     // stack slots the steps need
	InOrder bool    // exactly one chain 0, 1, …, N−1: the hot path
	First   int     // above 0: exactly one chain First, …, N−1, 0, …, First−1
}

// Step is one instruction.
//
// A chain pushes an accumulator at −0 and adds to it the values at positions Start, Start+Stride, …,
// Count of them. A join pops b, then a, and pushes a + b.
type Step struct {
	Join                 bool
	Start, Stride, Count int
}

// Program is the order for n values. Asked again for the same n, it does not allocate.
// It is safe for concurrent use.
func (o Order) Program(n int) *Program {
	if o.cache == nil { // the zero value
		return Seq.Program(n)
	}
	if p := o.cache.get(n); p != nil {
		return p
	}
	p := o.compile(n)
	o.cache.put(p)
	return p
}

// programCache holds the programs of the lengths asked for last. A list is never changed, only
// replaced, so that a reader needs no lock; of two writers one may lose its entry, which costs
// a compilation and no more.
type programCache struct{ list atomic.Pointer[[]*Program] }

const cacheSize = 16

func (c *programCache) get(n int) *Program {
	if list := c.list.Load(); list != nil {
		for _, p := range *list {
			if p.N == n {
				return p
			}
		}
	}
	return nil
}

func (c *programCache) put(p *Program) {
	list := []*Program{p}
	if old := c.list.Load(); old != nil {
		list = append(list, (*old)[:min(len(*old), cacheSize-1)]...)
	}
	c.list.Store(&list)
}

func (o Order) compile(n int) *Program {
	if n < 0 {
		panic("reduce: the number of values is negative")
	}
	p := &Program{N: n}
	if n == 0 {
		return p
	}
	switch o.kind {
	case seq:
		p.chain(0, 1, n)
	case reverse:
		p.chain(n-1, -1, n)
	case pairwise:
		p.pairwise(0, n, 1)
	case blocked:
		p.pairwise(0, n, int(o.arg))
	case lanes:
		p.lanes(n, int(o.arg))
	case splitk:
		p.splitk(o)
	case segments:
		p.segments(0, int(o.arg), int(o.arg))
	case perm:
		p.permuted(Permutation(o.arg, n))
	case given:
		if len(o.given) != n {
			panic("reduce: a given order is of another length than the sum")
		}
		p.permuted(o.given)
	case ring, nccltree, symmetric:
		p.placed(o)
	default:
		panic("reduce: arrival has no program until it is resolved")
	}
	p.InOrder = len(p.Steps) == 1 && p.Steps[0].Start == 0 && (p.Steps[0].Stride == 1 || n == 1) && p.Perm == nil
	p.Depth = p.stack()
	return p
}

// permuted is one chain over a permutation; over the identity it is the plain one.
func (p *Program) permuted(order []int) {
	p.chain(0, 1, p.N)
	if slices.IsSorted(order) {
		return
	}
	p.Perm = make([]int32, p.N)
	for i, l := range order {
		p.Perm[i] = int32(l)
	}
}

func (p *Program) chain(start, stride, count int) {
	p.Steps = append(p.Steps, Step{Start: start, Stride: stride, Count: count})
}

func (p *Program) join() { p.Steps = append(p.Steps, Step{Join: true}) }

// pairwise emits blocks of size from lo to hi, joined as pairwiseTree joins them.
func (p *Program) pairwise(lo, hi, size int) {
	blocks := (hi - lo + size - 1) / size
	if blocks <= 1 {
		p.chain(lo, 1, hi-lo)
		return
	}
	mid := lo + half(blocks)*size
	p.pairwise(lo, mid, size)
	p.pairwise(mid, hi, size)
	p.join()
}

// lanes emits lane l's subtree: lanes l, l+stride, … of w, joined by halving.
func (p *Program) lanes(n, w int) {
	var emit func(l, stride int) bool
	emit = func(l, stride int) bool {
		if l >= n {
			return false
		}
		if stride == w {
			p.chain(l, w, (n-l+w-1)/w)
			return true
		}
		emit(l, 2*stride)
		if emit(l+stride, 2*stride) {
			p.join()
		}
		return true
	}
	emit(0, 1)
}

// splitk emits the slices in the order in which they are joined.
func (p *Program) splitk(o Order) {
	n := p.N
	size := o.sliceSize(n)
	slice := func(s int) { p.chain(s*size, 1, min(size, n-s*size)) }
	inner := Seq
	if o.inner != nil {
		inner = *o.inner
	}
	var emit func(t Tree)
	emit = func(t Tree) {
		if t.isLeaf() {
			slice(t.Leaf)
			return
		}
		emit(t.Kids[0])
		emit(t.Kids[1])
		p.join()
	}
	emit(inner.Tree(o.slices(n)))
}

// segments emits the segments from lo to hi that have values, joined as segmentsTree joins them.
func (p *Program) segments(lo, hi, of int) {
	at := func(segment int) int { return p.N * segment / of }
	if at(lo) == at(hi) {
		return
	}
	if hi-lo == 1 {
		p.chain(at(lo), 1, at(hi)-at(lo))
		return
	}
	mid := lo + half(hi-lo)
	p.segments(lo, mid, of)
	p.segments(mid, hi, of)
	if at(lo) < at(mid) && at(mid) < at(hi) {
		p.join()
	}
}

func (p *Program) stack() int {
	depth, most := 0, 0
	for _, s := range p.Steps {
		if s.Join {
			depth--
			continue
		}
		depth++
		most = max(most, depth)
	}
	return most
}

// Tree is the tree the program adds by.
func (p *Program) Tree() Tree {
	if p.N == 0 {
		return Empty
	}
	var stack []Tree
	for _, s := range p.Steps {
		if s.Join {
			top := len(stack) - 1
			stack[top-1] = Node(stack[top-1], stack[top])
			stack = stack[:top]
			continue
		}
		leaves := upTo(s.Start, s.Count, s.Stride)
		if p.Perm != nil {
			for i, l := range leaves {
				leaves[i] = int(p.Perm[l])
			}
		}
		stack = append(stack, Chain(leaves))
	}
	return stack[0]
}
