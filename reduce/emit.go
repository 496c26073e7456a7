package reduce

import "slices"

// emit appends the steps of an order over some of the positions.
func (p *Program) emit(o Order, at part) {
	switch o.kind {
	case seq:
		p.chain(at)
	case reverse:
		p.chain(part{at.start + (at.count-1)*at.stride, -at.stride, at.count})
	case pairwise:
		p.pairwise(at.count, func(i int) { p.chain(part{at.start + i*at.stride, at.stride, 1}) })
	case blocked, lanes, splitk, segments:
		p.parted(o, at)
	case perm:
		p.permuted(Permutation(o.arg, at.count), at)
	case given:
		if len(o.given) != at.count {
			panic("reduce: a given order is of another length than the sum")
		}
		p.permuted(o.given, at)
	case literal:
		if o.leaves != at.count {
			panic("reduce: a tree written out is of another length than the sum")
		}
		p.written(*o.tree, at)
	case exact, binned, kahanSum, neumaierSum:
		if p.chain(at); at.count > 1 {
			p.last().By = o.Adder()
		}
	case ring, nccltree, symmetric:
		p.placed(o, at)
	default:
		panic("reduce: arrival has no program until it is resolved")
	}
}

// permuted is one chain over a permutation of some positions; over the identity it is the plain one.
func (p *Program) permuted(order []int, at part) {
	p.chain(at)
	p.permute(order, at)
}

// permute has position i of some be value order[i] of theirs.
func (p *Program) permute(order []int, at part) {
	if slices.IsSorted(order) {
		return
	}
	if p.Perm == nil {
		p.Perm = make([]int32, p.N)
		for i := range p.Perm {
			p.Perm[i] = int32(i)
		}
	}
	for i, l := range order {
		p.Perm[at.start+i*at.stride] = int32(at.start + l*at.stride)
	}
}

func (p *Program) chain(at part) {
	p.Steps = append(p.Steps, Step{Start: at.start, Stride: at.stride, Count: at.count})
}

func (p *Program) join(sums int, by Adder) { p.Steps = append(p.Steps, Step{Join: sums, By: by}) }

func (p *Program) last() *Step { return &p.Steps[len(p.Steps)-1] }

// pairwise emits so many sums, joined as pairwiseTree joins them.
func (p *Program) pairwise(sums int, emit func(i int)) {
	var halves func(lo, hi int)
	halves = func(lo, hi int) {
		if hi-lo == 1 {
			emit(lo)
			return
		}
		mid := lo + half(hi-lo)
		halves(lo, mid)
		halves(mid, hi)
		p.join(2, Rounded)
	}
	halves(0, sums)
}

// parted emits an order of parts: as its kind joins them, or by the order that it names.
func (p *Program) parted(o Order, at part) {
	n := at.count
	emit := func(i int) {
		of := o.part(i, n)
		p.emit(o.adding(), part{at.start + of.start*at.stride, of.stride * at.stride, of.count})
		p.last().Stored = true
	}
	switch {
	case o.join != nil:
		p.joined(o, n, emit)
	case o.kind == blocked:
		p.pairwise(o.count(n), emit)
	case o.kind == lanes:
		p.lanes(min(int(o.arg), n), int(o.arg), emit)
	case o.kind == segments:
		p.segments(n, 0, int(o.arg), int(o.arg), emit)
	default:
		for i := range o.count(n) {
			if emit(i); i > 0 {
				p.join(2, Rounded)
			}
		}
	}
}

// joined emits parts as the order named for it joins them. Empty ones are absent.
func (p *Program) joined(o Order, n int, emit func(i int)) {
	present := make([]Tree, o.count(n))
	for i := range present {
		if present[i].Leaf = i; o.part(i, n).count == 0 {
			present[i] = Empty
		}
	}
	p.tree(Graft(o.join.Tree(len(present)), present), emit)
}

// tree emits a tree whose leaves are sums.
func (p *Program) tree(t Tree, emit func(i int)) {
	if t.isLeaf() {
		emit(t.Leaf)
		return
	}
	for _, k := range t.Kids {
		p.tree(k, emit)
	}
	p.join(len(t.Kids), t.By)
	p.last().Right = t.gather
}

// written emits a tree written out. A node over leaves is a chain, and so is a running sum that leaves are added to.
func (p *Program) written(t Tree, at part) {
	p.permute(t.Leaves(), at)
	next := 0
	take := func(count int) part {
		next += count
		return part{at.start + (next-count)*at.stride, at.stride, count}
	}
	var emit func(t Tree)
	emit = func(t Tree) {
		base, count := spine(t)
		switch {
		case t.isLeaf():
			p.chain(take(1))
		case wholeAdder(t) != Rounded:
			p.chain(take(len(t.Kids)))
			p.last().By = t.By
		case base.isLeaf():
			p.chain(take(count + 1))
		case count > 0:
			emit(base)
			for range count {
				p.chain(take(1))
				p.join(2, Rounded)
			}
		default:
			for _, k := range t.Kids {
				emit(k)
			}
			p.join(len(t.Kids), t.By)
		}
	}
	emit(t)
}

// spine is the sum to which a tree adds leaves one by one, and how many.
func spine(t Tree) (base Tree, leaves int) {
	for len(t.Kids) == 2 && t.By == Rounded && t.Kids[1].isLeaf() {
		t = t.Kids[0]
		leaves++
	}
	return t, leaves
}

// lanes emits n lanes of w, joined by halving: lanes l, l+stride, … are a subtree.
func (p *Program) lanes(n, w int, lane func(l int)) {
	var emit func(l, stride int) bool
	emit = func(l, stride int) bool {
		if l >= n {
			return false
		}
		if stride == w {
			lane(l)
			return true
		}
		emit(l, 2*stride)
		if emit(l+stride, 2*stride) {
			p.join(2, Rounded)
		}
		return true
	}
	emit(0, 1)
}

// segments emits the segments from lo to hi that have some of n values, joined pairwise.
func (p *Program) segments(n, lo, hi, of int, emit func(i int)) {
	at := func(segment int) int { return n * segment / of }
	if at(lo) == at(hi) {
		return
	}
	if hi-lo == 1 {
		emit(lo)
		return
	}
	mid := lo + half(hi-lo)
	p.segments(n, lo, mid, of, emit)
	p.segments(n, mid, hi, of, emit)
	if at(lo) < at(mid) && at(mid) < at(hi) {
		p.join(2, Rounded)
	}
}
