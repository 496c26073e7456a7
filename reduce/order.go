package reduce

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync/atomic"
)

// Order is a way to add n values, for every n. It is immutable; the zero value is Seq.
//
// The trees for n = 10:
//
//	seq         (((((((((0 1) 2) 3) 4) 5) 6) 7) 8) 9)
//	reverse     (((((((((9 8) 7) 6) 5) 4) 3) 2) 1) 0)
//	pairwise    ((((0 1) (2 3)) ((4 5) (6 7))) (8 9))
//	blocked(4)  (((((0 1) 2) 3) (((4 5) 6) 7)) (8 9))
//	lanes(4)    ((((0 4) 8) (2 6)) (((1 5) 9) (3 7)))
//	splitk(4)   (((((0 1) 2) ((3 4) 5)) ((6 7) 8)) 9)
//	perm(7)     (((((((((8 1) 5) 9) 0) 4) 3) 2) 6) 7)
//
// seq and reverse run along the index. pairwise halves at the largest power of two below
// n. blocked(b) adds blocks of b in sequence and joins them pairwise. lanes(w) keeps w strided
// accumulators, value i in lane i mod w, and joins them by halving, as a SIMD register or a warp
// does. splitk(s) adds s contiguous slices of ⌈n/s⌉ and joins the slices in sequence, or in a
// given order: splitk(4,arrival). perm(seed) is a sequence over a permutation drawn from the seed,
// given(2 0 1) over one written out. arrival is the order in which contributions come; it
// depends on the call and must be resolved to given(…) first.
type Order struct {
	kind  kind
	arg   uint64
	given []int
	inner *Order // how splitk joins its slices; nil: seq
	cache *programCache
}

type kind uint8

const (
	seq kind = iota
	reverse
	pairwise
	blocked
	lanes
	splitk
	perm
	given
	arrival
	kinds
)

var kindNames = [kinds]string{"seq", "reverse", "pairwise", "blocked", "lanes", "splitk", "perm", "given", "arrival"}

// Allowed describes the orders for error messages.
const Allowed = "seq, reverse, pairwise, blocked(b), lanes(w), splitk(s), splitk(s,ORDER), perm(seed), given(2 0 1), arrival"

// The orders without parameters.
var (
	Seq      = Order{kind: seq, cache: new(programCache)}
	Reverse  = Order{kind: reverse, cache: new(programCache)}
	Pairwise = Order{kind: pairwise, cache: new(programCache)}
	Arrival  = Order{kind: arrival, cache: new(programCache)}
)

// Given is the sequence over a permutation written out.
func Given(order []int) Order {
	return Order{kind: given, given: append([]int{}, order...), cache: new(programCache)}
}

func (o Order) String() string {
	name := kindNames[o.kind]
	switch o.kind {
	case blocked, lanes, perm:
		return fmt.Sprintf("%s(%d)", name, o.arg)
	case splitk:
		if o.inner != nil {
			return fmt.Sprintf("%s(%d,%s)", name, o.arg, o.inner)
		}
		return fmt.Sprintf("%s(%d)", name, o.arg)
	case given:
		s := make([]string, len(o.given))
		for i, v := range o.given {
			s[i] = strconv.Itoa(v)
		}
		return name + "(" + strings.Join(s, " ") + ")"
	}
	return name
}

// ParseOrder reads what String writes.
func ParseOrder(s string) (Order, error) {
	bad := func(why string) (Order, error) {
		return Order{}, fmt.Errorf("order %q: %s: allowed are %s", s, why, Allowed)
	}
	name, args, hasArgs := strings.Cut(s, "(")
	if hasArgs {
		if !strings.HasSuffix(args, ")") {
			return bad("missing )")
		}
		args = args[:len(args)-1]
	}
	o := Order{kind: kinds, cache: new(programCache)}
	for k, n := range kindNames {
		if n == name {
			o.kind = kind(k)
		}
	}
	switch o.kind {
	case kinds:
		return bad("unknown")
	case seq, reverse, pairwise, arrival:
		if hasArgs {
			return bad("takes no argument")
		}
		return o, nil
	case given:
		if !hasArgs {
			return bad("needs a permutation")
		}
		var err error
		if o.given, err = parsePermutation(args); err != nil {
			return bad(err.Error())
		}
		return o, nil
	}
	first, rest, hasInner := strings.Cut(args, ",")
	if hasInner && o.kind != splitk {
		return bad("takes one argument")
	}
	if hasInner {
		inner, err := ParseOrder(rest)
		if err != nil {
			return Order{}, err
		}
		if inner.kind != seq {
			o.inner = &inner
		}
	}
	var err error
	if o.arg, err = strconv.ParseUint(first, 10, 64); err != nil {
		return bad("needs a whole number")
	}
	switch {
	case o.kind != perm && (o.arg < 1 || o.arg > maxLeaves):
		return bad(fmt.Sprintf("the number must be from 1 to %d", maxLeaves))
	case o.kind == lanes && o.arg&(o.arg-1) != 0:
		return bad("the number of lanes must be a power of two")
	}
	return o, nil
}

func parsePermutation(s string) ([]int, error) {
	fields := strings.Fields(s)
	if strings.Join(fields, " ") != s {
		return nil, fmt.Errorf("numbers must be separated by one space")
	}
	seen := make([]bool, len(fields))
	p := make([]int, len(fields))
	for i, f := range fields {
		v, err := strconv.Atoi(f)
		if err != nil || v < 0 || v >= len(fields) || seen[v] || strconv.Itoa(v) != f {
			return nil, fmt.Errorf("must be a permutation of 0 to %d", len(fields)-1)
		}
		seen[v], p[i] = true, v
	}
	return p, nil
}

// MustOrder is ParseOrder for constants.
func MustOrder(s string) Order {
	o, err := ParseOrder(s)
	if err != nil {
		panic("reduce: a constant order does not parse: " + err.Error())
	}
	return o
}

// Context is what a concrete order can depend on besides n.
type Context struct {
	// Arrival draws the order in which n contributions come.
	Arrival func(n int) []int
}

// Concrete tells whether the order is the same for every call.
func (o Order) Concrete() bool {
	return o.kind != arrival && (o.inner == nil || o.inner.Concrete())
}

// Fits tells whether the order is one for n values: a permutation written out is for its length alone.
func (o Order) Fits(n int) bool {
	switch {
	case o.kind == given:
		return len(o.given) == n
	case o.inner != nil:
		return o.inner.Fits(o.slices(n))
	}
	return true
}

// Resolve gives the concrete order for n values: what arrives is written out.
func (o Order) Resolve(c Context, n int) Order {
	switch {
	case o.kind == arrival:
		return Given(c.Arrival(n))
	case !o.Concrete():
		inner := o.inner.Resolve(c, o.slices(n))
		o.inner, o.cache = &inner, new(programCache)
	}
	return o
}

// slices is the number of slices splitk cuts n into; the last may be short, none is empty.
func (o Order) slices(n int) int {
	size := o.sliceSize(n)
	if size == 0 {
		return 0
	}
	return (n + size - 1) / size
}

func (o Order) sliceSize(n int) int {
	s := int(o.arg)
	return (n + s - 1) / s
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
	case blocked:
		return pairwiseTree(chunks(n, int(o.arg)))
	case lanes:
		return lanesTree(n, int(o.arg))
	case splitk:
		inner := Seq
		if o.inner != nil {
			inner = *o.inner
		}
		return Graft(inner.Tree(o.slices(n)), chunks(n, o.sliceSize(n)))
	case perm:
		return Chain(Permutation(o.arg, n))
	case given:
		if len(o.given) != n {
			panic("reduce: a given order is of another length than the sum")
		}
		return Chain(o.given)
	}
	panic("reduce: arrival has no tree until it is resolved")
}

func upTo(start, n, stride int) []int {
	l := make([]int, n)
	for i := range l {
		l[i] = start + i*stride
	}
	return l
}

func singles(n int) []Tree { return chunks(n, 1) }

// chunks are chains over blocks of size consecutive leaves.
func chunks(n, size int) []Tree {
	var t []Tree
	for lo := 0; lo < n; lo += size {
		t = append(t, Chain(upTo(lo, min(size, n-lo), 1)))
	}
	return t
}

// pairwiseTree joins parts, the left half being the largest power of two below their number, so
// that aligned blocks of a power of two are subtrees whatever follows them.
func pairwiseTree(parts []Tree) Tree {
	if len(parts) == 1 {
		return parts[0]
	}
	h := half(len(parts))
	return Node(pairwiseTree(parts[:h]), pairwiseTree(parts[h:]))
}

func half(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// lanesTree joins lanes by halving: lane i with lane i+w/2, then i+w/4, …; a lane
// without values is absent.
func lanesTree(n, w int) Tree {
	t := make([]Tree, w)
	for l := range t {
		t[l] = Empty
		if l < n {
			t[l] = Chain(upTo(l, (n-l+w-1)/w, w))
		}
	}
	for w > 1 {
		w /= 2
		for l := range w {
			t[l] = joined(t[l], t[l+w])
		}
	}
	return t[0]
}

func joined(a, b Tree) Tree {
	switch {
	case b.Kids == nil && b.Leaf < 0:
		return a
	case a.Kids == nil && a.Leaf < 0:
		return b
	}
	return Node(a, b)
}

// Permutation draws a permutation of 0 to n−1 from a seed: Fisher–Yates from the end, its
// numbers the outputs of splitmix64 started at the seed, each reduced mod i+1.
func Permutation(seed uint64, n int) []int {
	p := upTo(0, n, 1)
	for i := n - 1; i > 0; i-- {
		seed += 0x9e3779b97f4a7c15
		h := seed
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
		j := int(h % uint64(i+1))
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// programCache remembers the program of the last length asked for.
type programCache struct{ last atomic.Pointer[Program] }
