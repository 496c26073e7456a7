package device

import (
	"math"
	"slices"
	"unsafe"

	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
	"firstbit/state"
)

// Kernel is one entry of the library: what a Call runs, and the Plans it may run by.
type Kernel struct {
	Name  string
	Fixed reduce.Plan // the order that depends on nothing but the call
	Fast  reduce.Plan // what a user of GPUs gets; empty when it is Fixed

	// Products names the reductions of matrix products, which the fused recipe fuses into their sums; empty: there are none.
	Products []string

	// Tokens names the reduction that runs over tokens and so crosses sequences; empty: none does.
	Tokens string
	// Canonical is what the canonical order sets over Fixed besides Tokens; empty: nothing.
	Canonical reduce.Plan

	// Sharded names the reduction that tensor parallelism cuts into equal runs of leaves; empty: none is.
	Sharded string

	// ByToken: what it writes has a row for each token that the rank has, or an entry for each sequence, or is one number for all of them.
	ByToken bool

	In, Scalars, Out ArgNames // what a Call reads and writes

	Subkernels []Subkernel // recorded apart at kernel level, such as epilogues
	Run        func(*Call) // reads inputs, scalars and c.Plan, writes outputs
}

// Segments is the number of equal parts of a sequence, and of a sum that tensor parallelism may cut, which the canonical order adds
// in sequence and joins pairwise: so many ranks at most can share one.
const Segments = 8

// Subkernel is a piece of a Kernel with a name and outputs of its own.
type Subkernel struct {
	Name string
	Outs []string
}

// Has tells whether it writes the named output.
func (s Subkernel) Has(out string) bool { return slices.Contains(s.Outs, out) }

// Arg is a tensor under the name the kernel knows it by.
type Arg struct {
	Name string
	*Tensor
}

// Scalar is a number a Call reads besides tensors; it is part of its inputs.
type Scalar struct {
	Name  string
	Value float64
}

// Flags mark outputs whose bytes are not yet, or not at all, meant to be read.
type Flags uint8

// The flags of the trace contract.
const (
	Uninit Flags = 1 << iota
	AsyncPending
	NonBlocking
)

// Partial is one contribution to a sum, shown to a Probe in the order of its addition.
type Partial struct {
	Subkernel string // that it belongs to
	Row       int    // block of rows
	Tile      int    // tile, CTA or segment within the row block
	Reverse   bool   // the tile was walked from its end
	F32       []float32
	F64       []float64
}

// Arrival is an order drawn from the Schedule during a Call.
type Arrival struct {
	Name  string
	Order []int
}

// Call is one named operation on its way through the door. It belongs to one
// call site and is used again every time that site runs.
type Call struct {
	ID      ID
	Kind    Kind
	Scope   string // module scopes
	Label   string // label at the call site
	Kernel  *Kernel
	Plan    reduce.Plan
	Library string
	In, Out []Arg
	Scalars []Scalar
	Body    func(*Call) // what runs; the Kernel's Run unless the maker sets another
	View    bool

	Shared
	Piece
	Watched
	site
}

// Shared is what a Call has to do with other ranks.
type Shared struct {
	Group  string
	Peer   string
	Flags  Flags
	Shards int // how many ranks add a part each of what this Call's outputs are sums of; the Kernel's Sharded reduction is cut over them

	// Whole is the memory in which lie the tensors that a collective adds or gathers as one; nil: it has one of them.
	Whole *Tensor
	// Lands is where the result of a Call that only starts is to come, part by part; nil: it writes its outputs.
	Lands *Tensor
	// Among is the place for which arrival is drawn where ranks must agree on it; nil: the rank's own.
	Among *Coord
}

// Piece says which part of the run's state a Call is about.
type Piece struct {
	// State is what the Call shows or restores; nil: it is another Call.
	State *state.Item
	// Weight is where that lies in the whole whose gradient the Call accumulates, or which it updates; nil: it is another Call.
	Weight *state.Place
}

// Watched is what a Call shows to who watches it.
type Watched struct {
	Probe    func(Partial) // nil unless watched at kernel level
	Arrivals []Arrival     // if it is, the orders drawn while the Call ran

	Leaves   func(Summed) // told of every sum that is resolved; nil: nobody asks
	Launches int          // how often its body ran since whoever watches set it to 0
	InOrder  bool         // who watches waits for everybody, so that all arrive in order
}

// Summed is a sum that a Call has resolved.
type Summed struct {
	Name     string
	N        int           // leaves
	Products bool          // it is of products of two tensors, which tensor cores might add up
	Of       lowp.Operands // what they multiply
	AtOnce   int           // products that a tensor core adds at once; 0: none does
}

// site is where Calls of one name come from.
type site struct {
	dev   *Device
	from  string // "phase path"
	key   uint64 // hash of from, the static half of the Schedule's key
	stamp int64  // the last (step, micro) it ran at
	owned []*Tensor

	checked counts // of the arguments that last were as the Kernel declares
	fresh   bool   // a name has changed since
}

// Read gives an input.
func (c *Call) Read(name string, t *Tensor) { c.In = c.give(c.In, name, t) }

// ReadIf gives an input that a Call may do without; nil: it does.
func (c *Call) ReadIf(name string, t *Tensor) {
	if t != nil {
		c.Read(name, t)
	}
}

// ReadScalar gives a number the Call depends on.
func (c *Call) ReadScalar(name string, v float64) {
	n := len(c.Scalars)
	if n == cap(c.Scalars) || !same(c.Scalars[:n+1][n].Name, name) {
		c.fresh = true
	}
	c.Scalars = append(c.Scalars, Scalar{name, v})
}

// give adds an argument, and notes if another name stood in its place when the site last ran.
func (c *Call) give(args []Arg, name string, t *Tensor) []Arg {
	n := len(args)
	if n == cap(args) || !same(args[:n+1][n].Name, name) {
		c.fresh = true
	}
	return append(args, Arg{name, t})
}

// Write gives an output that the call site owns: the same storage every
// time the site runs, as long as what it writes fits.
func (c *Call) Write(name string, f lowp.Format, shape ...int) *Tensor {
	i := len(c.Out)
	if i == len(c.owned) {
		c.owned = append(c.owned, nil)
	}
	t := c.owned[i]
	if t == nil || !t.reshape(f, shape) {
		s := make([]int, len(shape)) // a copy, so that the caller's variadic stays on its stack
		copy(s, shape)
		t = NewTensor(f, s...)
		c.owned[i] = t
	}
	c.Out = c.give(c.Out, name, t)
	return t
}

// Update gives as an output a tensor that lives elsewhere, such as a weight.
func (c *Call) Update(name string, t *Tensor) {
	if len(c.Out) == len(c.owned) {
		c.owned = append(c.owned, nil)
	}
	c.Out = c.give(c.Out, name, t)
}

// Columns says which of how many equal parts of its columns the rank has; parts 0: the scope cuts none.
func (c *Call) Columns() (part, parts int) { return c.dev.part, c.dev.parts }

// Key is a hash of the Call's phase and path.
func (c *Call) Key() uint64 { return c.key }

// Swap puts another tensor in the place of the argument of a name, and returns the one that was there.
func Swap(args []Arg, name string, t *Tensor) (was *Tensor) {
	for i := range args {
		if args[i].Name == name {
			was, args[i].Tensor = args[i].Tensor, t
			return was
		}
	}
	panic("device: there is no argument " + name)
}

// Arrival draws from the Schedule the order in which n contributions of the
// named reduction arrive. It depends on the Call's ID and the schedule seed only.
func (c *Call) Arrival(name string, n int) []int {
	id := c.ID
	if c.Among != nil {
		id.At = *c.Among
	}
	order := c.dev.schedule.Arrival(c.key, id, name, n)
	if c.InOrder {
		slices.Sort(order)
	}
	if c.Probe != nil {
		c.Arrivals = append(c.Arrivals, Arrival{name, order})
	}
	return order
}

// Reschedule has what follows on the Call's rank arrive by another Schedule, and returns the one that was.
func (c *Call) Reschedule(s Schedule) (was Schedule) {
	was, c.dev.schedule = c.dev.schedule, s
	return was
}

// Order is the concrete order of the named reduction over n leaves.
func (c *Call) Order(name string, n int) reduce.Order {
	o := c.Plan.Order(name)
	if o.Concrete() {
		return o
	}
	return o.Resolve(reduce.Context{Arrival: func(n int) []int { return c.Arrival(name, n) }}, n)
}

// Data is the storage of t at the kernel's width.
func Data[T libm.Float](t *Tensor) []T {
	if unsafe.Sizeof(T(0)) == 4 { // T is float32, and the conversion is none
		return *(*[]T)(unsafe.Pointer(&t.f32))
	}
	return *(*[]T)(unsafe.Pointer(&t.f64))
}

// Poison writes NaN over what the Call is to write, where that is memory of its own: whoever reads it before it is written shows it.
func (c *Call) Poison() {
	for i := range c.Out {
		t := c.Out[i].Tensor
		if i >= len(c.owned) || c.owned[i] != t {
			continue
		}
		poison(t.f32, float32(math.NaN()))
		poison(t.f64, math.NaN())
	}
}

// poison writes v everywhere, twice as much each time.
func poison[T any](x []T, v T) {
	if len(x) == 0 {
		return
	}
	x[0] = v
	for n := 1; n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
}
