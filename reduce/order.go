package reduce

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Order is a way to add n values, for every n. It is immutable; the zero value is Seq.
//
// The trees for n = 10:
//
//	seq           (((((((((0 1) 2) 3) 4) 5) 6) 7) 8) 9)
//	reverse       (((((((((9 8) 7) 6) 5) 4) 3) 2) 1) 0)
//	pairwise      ((((0 1) (2 3)) ((4 5) (6 7))) (8 9))
//	blocked(4)    (((((0 1) 2) 3) (((4 5) 6) 7)) (8 9))
//	lanes(4)      ((((0 4) 8) (2 6)) (((1 5) 9) (3 7)))
//	splitk(4)     (((((0 1) 2) ((3 4) 5)) ((6 7) 8)) 9)
//	segments(4)   (((0 1) ((2 3) 4)) ((5 6) ((7 8) 9)))
//	perm(7)       (((((((((8 1) 5) 9) 0) 4) 3) 2) 6) 7)
//	ring(3)       (((((((((4 5) 6) 7) 8) 9) 0) 1) 2) 3)
//	symmetric(3)  (((((((((3 4) 5) 6) 7) 8) 9) 0) 1) 2)
//	nccltree(0)   (0 ((8 ((4 ((2 1) 3)) ((6 5) 7))) 9))
//	nccltree(1)   (9 ((1 ((5 ((7 8) 6)) ((3 4) 2))) 0))
//	nccltree(0,4) ((((3 2) 1) 0) ((9 8) (((7 6) 5) 4)))
//
// seq and reverse run along the index. pairwise halves at the largest power of two below
// n. blocked(b) adds blocks of b in sequence and joins them pairwise. lanes(w) keeps w strided
// accumulators, value i in lane i mod w, and joins them by halving, as a SIMD register or a warp
// does. splitk(s) adds s contiguous slices of ⌈n/s⌉ and joins the slices in sequence.
// segments(s) adds s segments, the i-th from ⌊n·i/s⌋ on, and joins them pairwise; of
// fewer values than segments the empty ones are absent. A share of the values that is a power of two of segments is a subtree.
//
// These four nest: splitk(4,arrival) joins its slices in the order named second, blocked(8,pairwise,exact) adds the values of each
// block by the order named third. Joining may arrive; adding inside a part may not.
//
// perm(seed) is a sequence over a permutation drawn from the seed,
// given(2 0 1) over one written out, and tree(((0 2) (1 3))) any tree at all, written out. arrival is the order in which
// contributions come; it depends on the call and must be resolved to given(…) first.
//
// exact, binned, kahan and neumaier are sums by one Adder, and no trees of roundings. The bits of the first two depend on no order.
//
// The rest are orders of collectives, whose values are the ranks'. ring(c) is chunk c of a ring: from the rank after c once
// around to c itself. symmetric(r) is what rank r makes of its part: its own value first, then around. nccltree(t) is the
// first or second of a double binary tree: a rank's own value, then its kids; with nccltree(t,node) over nodes of
// so many ranks, and a chain inside each. Which chunk, owner or tree depends on where an element lies in its message, so
// ring, symmetric and nccltree without it must be resolved first.
type Order struct {
	kind   kind
	at     bool // of an order that depends on the place: arg says which
	arg    uint64
	node   int // ranks of a node of nccltree
	given  []int
	tree   *Tree  // of kind literal
	leaves int    // of it
	join   *Order // how parts are joined; nil: as the kind does
	within *Order // how the values of a part are added; nil: seq
	cache  *programCache
}

type kind uint8

const (
	seq kind = iota
	reverse
	pairwise
	blocked
	lanes
	splitk
	segments
	perm
	given
	literal
	arrival
	exact
	binned
	kahanSum
	neumaierSum
	ring
	nccltree
	symmetric
	kinds
)

var kindNames = [kinds]string{"seq", "reverse", "pairwise", "blocked", "lanes", "splitk", "segments", "perm", "given", "tree", "arrival",
	"exact", "binned", "kahan", "neumaier", "ring", "nccltree", "symmetric"}

// adderOfKind is the Adder of the kinds that have one.
var adderOfKind = [kinds]Adder{exact: Exact, binned: Binned, kahanSum: Kahan, neumaierSum: Neumaier}

// Allowed describes the orders for error messages.
const Allowed = "seq, reverse, pairwise, blocked(b), lanes(w), splitk(s), segments(s), and each of these four as splitk(s,JOIN) or splitk(s,JOIN,WITHIN), " +
	"perm(seed), given(2 0 1), tree(((0 2) (1 3))), arrival, exact, binned, kahan, neumaier, " +
	"ring, ring(c), nccltree, nccltree(t), nccltree(t,node), symmetric, symmetric(r)"

// The orders without parameters.
var (
	Seq      = Order{kind: seq, cache: new(programCache)}
	Reverse  = Order{kind: reverse, cache: new(programCache)}
	Pairwise = Order{kind: pairwise, cache: new(programCache)}
	Arrival  = Order{kind: arrival, cache: new(programCache)}
)

// Blocked adds blocks of so many values in sequence and joins them pairwise.
func Blocked(size int) Order {
	if size < 1 {
		panic("reduce: a block has at least one value")
	}
	return Order{kind: blocked, arg: uint64(size), cache: new(programCache)}
}

// Segments adds so many equal parts in sequence and joins them pairwise.
func Segments(parts int) Order {
	if parts < 1 {
		panic("reduce: there is at least one segment")
	}
	return Order{kind: segments, arg: uint64(parts), cache: new(programCache)}
}

// Given is the sequence over a permutation written out.
func Given(order []int) Order {
	return Order{kind: given, given: append([]int{}, order...), cache: new(programCache)}
}

// OrderOf is the tree as an order for as many values as it has leaves, which must be 0, 1, 2, … in any place.
func OrderOf(t Tree) Order {
	if err := t.complete(); err != nil {
		panic("reduce: the tree is no order: " + err.Error())
	}
	return Order{kind: literal, tree: &t, leaves: t.count(), cache: new(programCache)}
}

// String is what ParseOrder reads.
func (o Order) String() string {
	name := kindNames[o.kind]
	switch o.kind {
	case ring, nccltree, symmetric:
		return o.placeString()
	case perm:
		return fmt.Sprintf("%s(%d)", name, o.arg)
	case blocked, lanes, segments, splitk:
		s := fmt.Sprintf("%s(%d", name, o.arg)
		if o.join != nil || o.within != nil {
			s += "," + o.joining().String()
		}
		if o.within != nil {
			s += "," + o.within.String()
		}
		return s + ")"
	case literal:
		return name + "(" + o.tree.String() + ")"
	case given:
		s := make([]string, len(o.given))
		for i, v := range o.given {
			s[i] = strconv.Itoa(v)
		}
		return name + "(" + strings.Join(s, " ") + ")"
	}
	return name
}

// Adder is how the order adds all its values at once; Rounded: by a tree.
func (o Order) Adder() Adder { return adderOfKind[o.kind] }

// Kind is the order's name without what it takes.
func (o Order) Kind() string { return kindNames[o.kind] }

// Context is what a concrete order can depend on besides n.
type Context struct {
	// Arrival draws the order in which n contributions come.
	Arrival func(n int) []int
	// Part says where the element lies: the chunk of a ring, 0 or 1 for the trees of nccltree, the owner of
	// a symmetric kernel's part.
	Part int
	// Ring lists the ranks as they stand in the ring; nil: 0, 1, 2, …
	Ring []int
	// Node is the number of ranks of a node, for nccltree; 0 or 1: every rank is a node.
	Node int
}

// Concrete tells whether the order is the same for every call and element.
func (o Order) Concrete() bool { return !o.Arrives() && !o.unplaced() }

// Arrives tells whether the order depends on arrival.
func (o Order) Arrives() bool { return o.kind == arrival || o.join != nil && o.join.Arrives() }

// Check tells why the order is not one for n values: a permutation or a tree written out is for its length alone,
// a chunk for rings that have it, and what depends on the place must say it.
func (o Order) Check(n int) error {
	own := -1 // the number of values that are written out
	switch o.kind {
	case given:
		own = len(o.given)
	case literal:
		own = o.leaves
	}
	switch {
	case own >= 0 && own != n:
		return fmt.Errorf("is not an order of %d values, but of %d", n, own)
	case o.kind.placed() && o.kind != nccltree && o.at && int(o.arg) >= max(n, 1):
		return fmt.Errorf("is not an order of %d values", n)
	case o.kind.placed() && !o.at:
		return errUnplaced
	}
	if o.join != nil {
		if err := o.join.Check(o.count(n)); err != nil {
			return fmt.Errorf("joins %d parts of %d values by %.80q, which %w", o.count(n), n, o.join, err)
		}
	}
	if o.within != nil {
		last := 0
		for i := range o.count(n) {
			size := o.part(i, n).count
			if err := o.within.Check(size); size != last && size > 0 && err != nil {
				return fmt.Errorf("has a part of %d among %d values, and %.80q %w", size, n, o.within, err)
			}
			last = size
		}
	}
	return nil
}

var errUnplaced = errors.New("depends on where an element lies: say ring(c), nccltree(t), nccltree(t,node) or symmetric(r)")

// Fits tells whether Check has nothing to say.
func (o Order) Fits(n int) bool { return o.Check(n) == nil }

// Resolve gives the concrete order for n values: what arrives is written out, what depends on the place says which.
func (o Order) Resolve(c Context, n int) Order {
	switch {
	case o.kind == arrival:
		return Given(c.Arrival(n))
	case o.kind.placed() && !o.at:
		return o.place(c, n)
	case !o.Concrete():
		join := o.join.Resolve(c, o.count(n))
		o.join, o.cache = &join, new(programCache)
	}
	return o
}

// InTurn is the order in which what arrives comes in its turn, 0, 1, 2, …: what threads that share the sum do one after another. It is none
// if nothing arrives, or if parts have an order of their own.
func (o Order) InTurn() (Order, bool) {
	switch {
	case o.kind == arrival:
		return Seq, true
	case o.join == nil || o.join.kind != arrival || o.within != nil:
		return o, false
	}
	o.join, o.cache = &Seq, o.cache.turns()
	return o, true
}

// Tree is the meaning of a concrete order.
func (o Order) Tree(n int) Tree {
	if n == 0 {
		return Empty
	}
	switch o.kind {
	case seq:
		return Chain(upTo(0, n, 1))
	case reverse:
		return Chain(upTo(n-1, n, -1))
	case pairwise:
		return pairwiseTree(singles(n))
	case blocked, lanes, splitk, segments:
		return o.partedTree(n)
	case perm:
		return Chain(Permutation(o.arg, n))
	case given:
		if len(o.given) != n {
			panic("reduce: a given order is of another length than the sum")
		}
		return Chain(o.given)
	case literal:
		if o.leaves != n {
			panic("reduce: a tree written out is of another length than the sum")
		}
		return *o.tree
	case exact, binned, kahanSum, neumaierSum:
		return adding(o.Adder(), upTo(0, n, 1))
	case ring, nccltree, symmetric:
		return o.placedTree(n)
	}
	panic("reduce: arrival has no tree until it is resolved")
}
