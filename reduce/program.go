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
	Chained bool    // chains and additions of two, all by Rounded
	First   int     // above 0: exactly one chain First, …, N−1, 0, …, First−1
}

// Step is one instruction.
//
// A chain (Join 0) pushes an accumulator at −0 and adds to it the values at positions Start, Start+Stride, …,
// Count of them. By another adder than Rounded it pushes their sum by that adder.
//
// A join pops Join partial sums and pushes their sum: by Rounded two, or a fused addition of more.
type Step struct {
	Join                 int
	By                   Adder
	Start, Stride, Count int

	Stored bool // the sum is a part's, see Formats.Store
	Right  bool // what comes from elsewhere is the right operand: of a chain each leaf, else the running sum; see Formats.Wire
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
type programCache struct {
	list atomic.Pointer[[]*Program]
	turn atomic.Pointer[programCache] // of the order InTurn
}

func (c *programCache) turns() *programCache {
	if t := c.turn.Load(); t != nil {
		return t
	}
	c.turn.CompareAndSwap(nil, new(programCache))
	return c.turn.Load()
}

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
	p.emit(o, part{0, 1, n})
	p.Chained = true
	for i := range p.Steps {
		s := &p.Steps[i]
		p.Chained = p.Chained && s.By == Rounded && s.Join <= 2
		if s.Join == 2 && p.Steps[i-1].Count == 1 && !s.Right {
			continue // a running sum comes to its leaf
		}
		s.Right = s.Right || s.Join > 0
	}
	p.InOrder = len(p.Steps) == 1 && p.Chained && p.Steps[0].Start == 0 && (p.Steps[0].Stride == 1 || n == 1) && p.Perm == nil
	p.Depth = p.stack()
	return p
}

func (p *Program) stack() int {
	depth, most := 0, 0
	for _, s := range p.Steps {
		switch {
		case s.Join > 0:
			depth -= s.Join - 1
		case s.By != Rounded: // its leaves are on the stack before they are added
			most = max(most, depth+s.Count)
			depth++
		default:
			depth++
		}
		most = max(most, depth)
	}
	return most
}

// FusedTree is the tree the program adds by where chains are of fused sums, each of which takes the next values, so many, to what the one before
// left: those of a tensor core.
func (p *Program) FusedTree(terms int) Tree {
	return p.treeOf(func(leaves []int) Tree {
		t := Empty
		for len(leaves) > 0 {
			n := min(terms, len(leaves))
			var kids []Tree
			if !t.isEmpty() {
				kids = append(kids, t)
			}
			for _, l := range leaves[:n] {
				kids = append(kids, Tree{Leaf: l})
			}
			if t, leaves = kids[0], leaves[n:]; len(kids) > 1 {
				t = Node(kids...)
			}
		}
		return t
	})
}

// Tree is the tree the program adds by.
func (p *Program) Tree() Tree { return p.treeOf(Chain) }

func (p *Program) treeOf(chain func(leaves []int) Tree) Tree {
	if p.N == 0 {
		return Empty
	}
	var stack []Tree
	for _, s := range p.Steps {
		if s.Join > 0 {
			top := len(stack) - s.Join
			node := Tree{Kids: slices.Clone(stack[top:]), By: s.By}
			stack = append(stack[:top], node)
			continue
		}
		leaves := upTo(s.Start, s.Count, s.Stride)
		if p.Perm != nil {
			for i, l := range leaves {
				leaves[i] = int(p.Perm[l])
			}
		}
		if s.By != Rounded {
			stack = append(stack, adding(s.By, leaves))
		} else {
			stack = append(stack, chain(leaves))
		}
	}
	return stack[0]
}
