package reduce

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// placed are the kinds of order that depend on where an element lies in its message until they say it.
func (k kind) placed() bool { return k == ring || k == nccltree || k == symmetric }

// maxTrees is the number of trees of a double binary tree.
const maxTrees = 2

// unplaced tells whether the order, or one inside it, does not say where the element lies.
func (o Order) unplaced() bool {
	return o.kind.placed() && !o.at || o.join != nil && o.join.unplaced()
}

// place is the order of the element of which c tells where it lies.
func (o Order) place(c Context, n int) Order {
	limit := max(n, 1)
	if o.kind == nccltree {
		limit = maxTrees
	}
	if c.Part < 0 || c.Part >= limit {
		panic("reduce: the order has no such part")
	}
	if o.kind == ring && c.Ring != nil {
		if len(c.Ring) != n {
			panic("reduce: a ring of another length than the sum")
		}
		if !slices.IsSorted(c.Ring) {
			return Order{kind: given, given: rotated(c.Ring, c.Part+1), cache: new(programCache)}
		}
	}
	o.arg, o.at, o.cache = uint64(c.Part), true, new(programCache)
	if o.kind == nccltree {
		o.node = max(c.Node, 1)
	}
	return o
}

// placeString is ring(c), nccltree(t), nccltree(t,node) or symmetric(r).
func (o Order) placeString() string {
	switch {
	case !o.at:
		return kindNames[o.kind]
	case o.node > 1:
		return fmt.Sprintf("%s(%d,%d)", kindNames[o.kind], o.arg, o.node)
	}
	return fmt.Sprintf("%s(%d)", kindNames[o.kind], o.arg)
}

// parsePlace reads what stands between the parentheses.
func (o *Order) parsePlace(args string) error {
	limit := maxLeaves
	if o.kind == nccltree {
		limit = maxTrees
		first, node, hasNode := strings.Cut(args, ",")
		if hasNode {
			v, err := strconv.Atoi(node)
			if err != nil || v < 1 || v > maxLeaves {
				return fmt.Errorf("the ranks of a node must be from 1 to %d", maxLeaves)
			}
			o.node = v
		}
		args = first
	}
	v, err := strconv.Atoi(args)
	switch {
	case err != nil:
		return errors.New("needs one whole number")
	case v < 0 || v >= limit:
		return fmt.Errorf("the number must be from 0 to %d", limit-1)
	}
	o.arg, o.at = uint64(v), true
	return nil
}

// first is the rank with which a ring's chunk or a symmetric kernel's owner starts its way around.
func (o Order) first(n int) int {
	if o.kind == ring {
		return (int(o.arg) + 1) % n
	}
	return int(o.arg)
}

// rotated is the list from place i on, and then its beginning.
func rotated(list []int, i int) []int {
	i %= max(len(list), 1)
	return slices.Concat(list[i:], list[:i])
}

// placedTree is the meaning of an order that says where its element lies.
func (o Order) placedTree(n int) Tree {
	if !o.at {
		panic("reduce: an order that depends on the place has no tree until it is resolved")
	}
	if int(o.arg) >= n && o.kind != nccltree {
		panic("reduce: the order has no such part")
	}
	if o.kind == nccltree {
		d := newDouble(n, o.node, int(o.arg))
		return d.tree(d.root)
	}
	t := Chain(rotated(upTo(0, n, 1), o.first(n)))
	if o.kind == symmetric {
		t.gatherAll()
	}
	return t
}

// gatherAll says of a chain that the leaves come to the running sum.
func (t *Tree) gatherAll() {
	for ; !t.isLeaf(); t = &t.Kids[0] {
		t.gather = true
	}
}

// double is one of the two trees that NCCL's tree algorithm lays over nodes, and the chain of ranks inside each.
//
// The binary tree over n nodes: of node r let bit be its lowest set bit; its kids are r − bit/2 and
// r + bit/2, the latter halving until it is in range, if it ever is. Node 0 is the root; its one kid is the
// highest power of two below n. The second tree is the first mirrored, r → n−1−r, for an even n, or shifted by one for
// an odd one, so that a node with kids in one tree has none in the other, save at most one.
//
// A node adds its ranks in a chain towards its first, which holds the place in the tree: x0 + (x1 + (x2 + …)), written from
// the far end. Then come its kids, in the order of the slots they are connected to.
type double struct {
	n, node, nodes int
	second         bool
	root           int
}

func newDouble(n, node, tree int) double {
	d := double{n: n, node: max(node, 1), second: tree == 1}
	d.nodes = (n + d.node - 1) / d.node
	d.root = d.mapped(0)
	return d
}

// mapped is the node of the second tree that stands where r stands in the first.
func (d double) mapped(r int) int {
	switch {
	case !d.second:
		return r
	case d.nodes%2 == 0:
		return d.nodes - 1 - r
	}
	return (r + 1) % d.nodes
}

// unmapped is the inverse of mapped.
func (d double) unmapped(r int) int {
	if d.second && d.nodes%2 == 1 {
		return (r + d.nodes - 1) % d.nodes
	}
	return d.mapped(r) // the mirror is its own inverse
}

// kids are the nodes below node r, in the order of their slots.
func (d double) kids(r int) []int {
	r = d.unmapped(r)
	if r == 0 {
		if d.nodes == 1 {
			return nil
		}
		return []int{d.mapped(half(d.nodes))}
	}
	step := (r & -r) / 2
	if step == 0 {
		return nil
	}
	kids := []int{d.mapped(r - step)}
	for ; step > 0; step /= 2 {
		if r+step < d.nodes {
			return append(kids, d.mapped(r+step))
		}
	}
	return kids
}

// ranks are those of node r, from the far end of its chain.
func (d double) ranks(r int) []int {
	last := min((r+1)*d.node, d.n) - 1
	return upTo(last, last-r*d.node+1, -1)
}

func (d double) tree(r int) Tree {
	t := Chain(d.ranks(r))
	for _, k := range d.kids(r) {
		t = Node(t, d.tree(k))
		t.gather = true
	}
	return t
}

// placed emits an order that says where its element lies.
func (p *Program) placed(o Order, at part) {
	switch {
	case !o.at:
		panic("reduce: an order that depends on the place has no program until it is resolved")
	case o.kind == nccltree:
		p.double(newDouble(at.count, o.node, int(o.arg)), at)
		return
	case int(o.arg) >= at.count:
		panic("reduce: the order has no such part")
	case at.count == p.N && at.stride == 1:
		p.rotation(o.first(p.N))
	default:
		p.permuted(rotated(upTo(0, at.count, 1), o.first(at.count)), at)
	}
	p.last().Right = o.kind == symmetric
}

// rotation is one chain from value first on, around to the one before it.
func (p *Program) rotation(first int) {
	p.chain(part{0, 1, p.N})
	if first == 0 {
		return
	}
	p.First = first
	p.Perm = twiceAround(p.N)[first:][:p.N:p.N]
}

// lastTwice is what twiceAround made last: the chunks of one ring share it.
var lastTwice atomic.Pointer[[]int32]

// twiceAround is 0, 1, …, n−1, 0, 1, …, n−1.
func twiceAround(n int) []int32 {
	if last := lastTwice.Load(); last != nil && len(*last) == 2*n {
		return *last
	}
	twice := make([]int32, 2*n)
	for i := range twice {
		twice[i] = int32(i % n)
	}
	lastTwice.Store(&twice)
	return twice
}

// double lays the ranks down in the order in which the tree takes them. A node's ranks are a chain; each of its kids is joined to it.
func (p *Program) double(d double, at part) {
	var order []int
	var emit func(r int)
	emit = func(r int) {
		ranks := d.ranks(r)
		p.chain(part{at.start + len(order)*at.stride, at.stride, len(ranks)})
		order = append(order, ranks...)
		for _, k := range d.kids(r) {
			emit(k)
			p.join(2, Rounded)
			p.last().Right = true
		}
	}
	emit(d.root)
	p.permute(order, at)
}
