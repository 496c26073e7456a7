package parallel

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// In a group of one, and for a Member without a Group, a collective is no Call: what it would add or gather is its own.

// The collectives that add, by the format in which each hop rounds. With tuned=true the tuner sets order and
// channels by the size of the message and the number of ranks and nodes.
var (
	allReduce        = adding(device.Kernel{Name: "all_reduce", In: device.Names("x"), Scalars: device.Names("ranks nodes")}, false)
	allReduceByToken = adding(device.Kernel{Name: "all_reduce", ByToken: true, In: device.Names("x"), Scalars: device.Names("ranks nodes")}, false)
	reduceScatter    = adding(device.Kernel{Name: "reduce_scatter", In: device.Names("*"), Scalars: device.Names("ranks nodes micros?")}, false)
	reduceBucket     = adding(device.Kernel{Name: "all_reduce", In: device.Names("*"), Scalars: device.Names("ranks nodes micros?")}, false) // whose parts have names
	// Partial sums come wider than their sum is kept: by the fixed recipe they are rounded once, where all have met, by the fast one at each hop.
	scatterPartial = adding(device.Kernel{Name: "reduce_scatter", ByToken: true, In: device.Names("x"), Scalars: device.Names("ranks nodes outer")}, true)
	allGather      = &device.Kernel{Name: "all_gather", In: device.Names("*"), Scalars: device.Names("ranks nodes n"), Out: device.Names("*")}
	sumCounts      = &device.Kernel{Name: "all_reduce.int", In: device.Names("x"), Scalars: device.Names("ranks nodes"), Out: device.Names("y")}
)

// adder is a collective that adds: one kernel for each format, for the plan says in which a partial sum is held.
type adder map[lowp.Format]*device.Kernel

func adding(k device.Kernel, partial bool) adder {
	a := adder{}
	k.Out = device.Names("y")
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
		acc := "/" + f.String()
		fixed := acc
		if partial {
			fixed = "/fp32"
		}
		of := k
		of.Fixed = reduce.MustPlan("ranks:ring" + fixed + "; channels=1; ring=1; communicators=1; tuned=false|true")
		of.Fast = reduce.MustPlan("ranks:ring" + acc + "; channels=4; ring=1; communicators=1; tuned=true|false")
		of.Canonical = reduce.MustPlan("ranks:pairwise/fp32")
		a[f] = &of
	}
	a[lowp.FP64] = a[lowp.FP32]
	return a
}

// open begins a collective of the member's group.
func (m Member) open(dev *device.Device, label string, k *device.Kernel) *device.Call {
	c := dev.OpenKind(device.Collective, label, k)
	c.Group = m.Name
	c.ReadScalar("ranks", float64(m.Size()))
	c.ReadScalar("nodes", float64(m.Nodes()))
	return c
}

// AllReduce is the sum of every member's x, for each of them.
//
// Shapes: x (…) → y (…).
// Reduces: the ranks.
func (m Member) AllReduce(dev *device.Device, label string, x *device.Tensor) *device.Tensor {
	return m.allReduce(dev, label, allReduce[x.Format], x)
}

// AllReduceByToken is AllReduce of what has a row for each token, or is one number for all of them.
func (m Member) AllReduceByToken(dev *device.Device, label string, x *device.Tensor) *device.Tensor {
	return m.allReduce(dev, label, allReduceByToken[x.Format], x)
}

func (m Member) allReduce(dev *device.Device, label string, k *device.Kernel, x *device.Tensor) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	c := m.open(dev, label, k)
	c.Read("x", x)
	y := c.Write("y", x.Format, x.Shape()...)
	c.Body = func(c *device.Call) {
		m.meet(c, func(calls []*device.Call) {
			m.add(calls, 0)
			send(calls[0])
			hand(calls, 0)
		})
	}
	c.Do()
	return y
}

// SumCounts adds whole numbers over the members, in place; their order is nothing.
func (m Member) SumCounts(dev *device.Device, label string, x *device.Tensor) {
	if m.Size() == 1 {
		return
	}
	c := m.open(dev, label, sumCounts)
	c.Read("x", x)
	c.Update("y", x)
	c.Body = func(c *device.Call) {
		m.meet(c, func(calls []*device.Call) {
			sum := calls[0].Output("y").I32()
			copy(sum, calls[0].Input("x").I32()) // where a fault has the member bring other numbers; else they are there
			for _, c := range calls[1:] {
				for i, v := range c.Input("x").I32() {
					sum[i] += v
				}
			}
			hand(calls, 0)
		})
	}
	c.Do()
}

// Shard is member i's part of n elements: lo to hi. All parts are as long but for the last ones.
func Shard(n, size, i int) (lo, hi int) {
	per := (n + size - 1) / size
	return min(i*per, n), min((i+1)*per, n)
}

// ReduceScatter is each member's shard of the sum of every member's x.
//
// Shapes: x (n) → y (shard of n).
// Reduces: the ranks.
func (m Member) ReduceScatter(dev *device.Device, label string, x *device.Buffer) *device.Tensor {
	if m.Size() == 1 {
		x.Collect()
		return x.Whole
	}
	c := m.reduceScatter(dev, label, x)
	c.Do()
	return c.Output("y")
}

func (m Member) reduceScatter(dev *device.Device, label string, x *device.Buffer) *device.Call {
	lo, hi := Shard(x.Len(), m.Size(), m.Index)
	return m.reduceParts(dev, label, reduceScatter, x, hi-lo, func(calls []*device.Call) { m.add(calls, 1) })
}

// AllReduceParts is the sum of every member's x, for each of them. The destination is another memory than x's.
//
// Shapes: x (n) → y (n).
// Reduces: the ranks.
func (m Member) AllReduceParts(dev *device.Device, label string, x *device.Buffer) *device.Tensor {
	if m.Size() == 1 {
		x.Collect()
		return x.Whole
	}
	c := m.allReduceParts(dev, label, x)
	c.Do()
	return c.Output("y")
}

func (m Member) allReduceParts(dev *device.Device, label string, x *device.Buffer) *device.Call {
	return m.reduceParts(dev, label, reduceBucket, x, x.Len(), func(calls []*device.Call) {
		m.add(calls, 0)
		hand(calls, 0)
	})
}

// reduceParts begins a collective that adds what lies in one memory, into so many elements.
func (m Member) reduceParts(dev *device.Device, label string, k adder, x *device.Buffer, n int, work func(calls []*device.Call)) *device.Call {
	c := m.open(dev, label, k[x.Whole.Format])
	for _, part := range x.Tensors {
		c.Read(part.Name, part.Tensor)
	}
	if x.Micros > 0 {
		c.ReadScalar("micros", float64(x.Micros))
	}
	c.Whole = x.Whole
	c.Write("y", x.Whole.Format, n)
	c.Body = func(c *device.Call) {
		x.Collect()
		m.meet(c, work)
	}
	return c
}

// AllGather lays every member's shard, one after another, into y. Parts of a shard, and of y, may be one.
//
// Shapes: x (together a shard of n) → y (n).
func (m Member) AllGather(dev *device.Device, label string, x []device.Arg, y *device.Buffer) {
	if m.Size() == 1 {
		lay(y.Whole, 0, x)
		y.Spread()
		return
	}
	n := y.Whole.Len()
	c := m.open(dev, label, allGather)
	for _, part := range x {
		c.Read(part.Name, part.Tensor)
	}
	c.ReadScalar("n", float64(n))
	for _, part := range y.Tensors {
		c.Update(part.Name, part.Tensor)
	}
	c.Whole = y.Whole
	c.Body = func(c *device.Call) {
		m.meet(c, func(calls []*device.Call) {
			whole := calls[0].Whole
			for i, from := range calls {
				lo, _ := Shard(n, len(calls), i)
				lay(whole, lo, from.Inputs("*"))
			}
			hand(calls, 0)
		})
		y.Spread()
	}
	c.Do()
}

// lay copies parts one after another, the first to element at. A member's own lie there already.
func lay(whole *device.Tensor, at int, parts []device.Arg) {
	for _, part := range parts {
		if !part.LiesIn(whole, at) {
			whole.CopyAt(at, part.Tensor)
		}
		at += part.Len()
	}
}

// add adds what the members bring, part by part, each into the output of the member that is to have it: the first has all
// of it where outer is 0, else each its shard of so many blocks.
func (m Member) add(calls []*device.Call, outer int) {
	if brought(calls[0]).Format == lowp.FP64 {
		addAll[float64](calls, m, outer)
		return
	}
	addAll[float32](calls, m, outer)
}

// send rounds a sum that goes to all members to the format in which it is sent, for the one that has it as well.
func send(c *device.Call) {
	if wire := c.Plan.Reduction("ranks").Wire; wire != lowp.FP32 && made(c).Format != lowp.FP64 {
		wire.RoundSlice(made(c).F32())
	}
}

// hand copies what one of the members has made to all others.
func hand(calls []*device.Call, from int) {
	has := made(calls[from])
	each(calls, has.Len(), func(c *device.Call) {
		if c != calls[from] {
			made(c).CopyAt(0, has)
		}
	})
}

// made is what a member has of a collective that leaves all with the same.
func made(c *device.Call) *device.Tensor {
	switch c.Kernel {
	case allGather:
		return c.Whole
	case broadcast: // in place
		return c.Output("x")
	}
	return c.Output("y")
}

// brought is what a member brings to a collective that adds.
func brought(c *device.Call) *device.Tensor {
	if c.Whole != nil {
		return c.Whole
	}
	return c.Input("x")
}

func addAll[T libm.Float](calls []*device.Call, m Member, outer int) {
	runs, in := subtreesOf(calls[0], len(calls)), make([][]T, 0, len(calls))
	for i, c := range calls {
		x := device.Data[T](brought(c))
		if runs == nil {
			in = append(in, x)
			continue
		}
		for j := range runs.of[i] {
			in = append(in, x[j*len(x)/runs.most:][:len(x)/runs.most])
		}
	}
	parts := m.partsOf(calls[0], outer)
	pieces := make([]kernel.Piece[T], len(parts))
	for i, p := range parts {
		pieces[i] = kernel.Piece[T]{Dst: device.Data[T](calls[p.to].Output("y"))[p.from:][:p.Hi-p.Lo], At: p.Lo, Fold: p.fold}
	}
	kernel.ReduceMembers(pieces, in)
}

// spreadFrom is the number of elements to copy below which handing work over costs more than it saves.
const spreadFrom = 1 << 15

// each does something to so many elements for each Call, on all processors where that pays. The Calls' outputs are apart.
func each(calls []*device.Call, elements int, do func(c *device.Call)) {
	work := func(lo, hi int) {
		for _, c := range calls[lo:hi] {
			do(c)
		}
	}
	if len(calls)*elements < spreadFrom {
		work(0, len(calls))
		return
	}
	kernel.Spread(len(calls), work)
}
