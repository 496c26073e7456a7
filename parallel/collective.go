package parallel

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// The collectives that add, by the format in which each hop rounds. With tuned=true the tuner sets order and
// channels by the size of the message and the number of ranks and nodes.
var (
	allReduce     = adding("all_reduce", runAllReduce[float32], runAllReduce[float64])
	reduceScatter = adding("reduce_scatter", runReduceScatter[float32], runReduceScatter[float64])
	allGather     = &device.Kernel{Name: "all_gather"}
	sumCounts     = &device.Kernel{Name: "all_reduce.int"}
)

// adder is a collective that adds: one kernel for each format, for the plan says in which a partial sum is held.
type adder struct {
	kernels map[lowp.Format]*device.Kernel
	work    func(calls []*device.Call, m Member)
}

func adding(name string, narrow, wide func(calls []*device.Call, m Member)) adder {
	a := adder{kernels: map[lowp.Format]*device.Kernel{}}
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16} {
		acc := "/" + f.String()
		a.kernels[f] = &device.Kernel{Name: name, Fixed: reduce.MustPlan("ranks:ring" + acc + "; channels=1; ring=1; communicators=1; tuned=false|true"),
			Fast: reduce.MustPlan("ranks:ring" + acc + "; channels=4; ring=1; communicators=1; tuned=true|false")}
	}
	a.kernels[lowp.FP64] = a.kernels[lowp.FP32]
	a.work = func(calls []*device.Call, m Member) {
		if calls[0].In[0].Format == lowp.FP64 {
			wide(calls, m)
			return
		}
		narrow(calls, m)
	}
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
	c := m.open(dev, label, allReduce.kernels[x.Format])
	c.Read("x", x)
	y := c.Write("y", x.Format, x.Shape()...)
	c.Body = func(c *device.Call) { m.meet(c, func(calls []*device.Call) { allReduce.work(calls, m) }) }
	c.Do()
	return y
}

// SumCounts adds whole numbers over the members, in place; their order is nothing.
func (m Member) SumCounts(dev *device.Device, label string, x *device.Tensor) {
	c := m.open(dev, label, sumCounts)
	c.Read("x", x)
	c.Update("y", x)
	c.Body = func(c *device.Call) {
		m.meet(c, func(calls []*device.Call) {
			sum := make([]int32, x.Len())
			for _, c := range calls {
				for i, v := range c.In[0].I32() {
					sum[i] += v
				}
			}
			for _, c := range calls {
				copy(c.Out[0].I32(), sum)
			}
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
func (m Member) ReduceScatter(dev *device.Device, label string, x *device.Tensor) *device.Tensor {
	lo, hi := Shard(x.Len(), m.Size(), m.Index)
	c := m.open(dev, label, reduceScatter.kernels[x.Format])
	c.Read("x", x)
	y := c.Write("y", x.Format, hi-lo)
	c.Body = func(c *device.Call) { m.meet(c, func(calls []*device.Call) { reduceScatter.work(calls, m) }) }
	c.Do()
	return y
}

// AllGather is every member's shard, one after another.
//
// Shapes: x (shard of n) → y (n).
func (m Member) AllGather(dev *device.Device, label string, x *device.Tensor, n int) *device.Tensor {
	c := m.open(dev, label, allGather)
	c.Read("x", x)
	c.ReadScalar("n", float64(n))
	y := c.Write("y", x.Format, n)
	c.Body = func(c *device.Call) {
		m.meet(c, func(calls []*device.Call) {
			for _, to := range calls {
				for i, from := range calls {
					lo, _ := Shard(n, len(calls), i)
					to.Out[0].CopyAt(lo, from.In[0].Tensor)
				}
			}
		})
	}
	c.Do()
	return y
}

func runAllReduce[T libm.Float](calls []*device.Call, m Member) {
	sum, lead := device.Data[T](calls[0].Out[0].Tensor), calls[0]
	cut := kernel.Partition{Elements: len(sum), Ranks: len(calls), Channels: lead.Plan.Int("channels")}
	var places []kernel.Place
	switch lead.Plan.Order("ranks").Kind() {
	case "ring":
		places = cut.Ring()
	case "nccltree":
		places = cut.Tree()
	case "symmetric":
		places = cut.Owners()
	default: // one order for every element
		places = []kernel.Place{{Hi: len(sum)}}
	}
	pieces := make([]kernel.Piece[T], len(places))
	for i, p := range places {
		pieces[i] = kernel.Piece[T]{Dst: sum[p.Lo:p.Hi], At: p.Lo, Fold: fold(lead, m, p.Channel, p.Part)}
	}
	kernel.ReduceMembers(pieces, inputs[T](calls))
	for _, c := range calls[1:] {
		copy(device.Data[T](c.Out[0].Tensor), sum)
	}
}

// runReduceScatter sums every shard as its owner's: chunk i of a ring ends at rank i. Channels cut each shard.
func runReduceScatter[T libm.Float](calls []*device.Call, m Member) {
	n, channels := calls[0].In[0].Len(), calls[0].Plan.Int("channels")
	tree := calls[0].Plan.Order("ranks").Kind() == "nccltree"
	pieces := make([]kernel.Piece[T], 0, len(calls)*channels)
	for i, c := range calls {
		lo, hi := Shard(n, len(calls), i)
		out := device.Data[T](c.Out[0].Tensor)
		for ch := range channels {
			a, b := kernel.Cut(hi-lo, channels, ch, 1)
			at := i
			if tree {
				at = kernel.TreeOf(ch, channels)
			}
			pieces = append(pieces, kernel.Piece[T]{Dst: out[a:b], At: lo + a, Fold: fold(calls[0], m, ch, at)})
		}
	}
	kernel.ReduceMembers(pieces, inputs[T](calls))
}

func inputs[T libm.Float](calls []*device.Call) [][]T {
	in := make([][]T, len(calls))
	for i, c := range calls {
		in[i] = device.Data[T](c.In[0].Tensor)
	}
	return in
}

// fold is the order over the ranks in which a part of a channel is added.
func fold(c *device.Call, m Member, channel, part int) kernel.Fold {
	at := reduce.Context{Part: part, Node: m.world.Node}
	if seed := c.Plan.Int("ring"); seed > 1 { // another allocation: every channel has a ring of its own
		at.Ring = reduce.Permutation(uint64(seed)<<16+uint64(channel), m.Size())
	}
	f := c.FoldAt("ranks", m.Size(), at)
	if c.Plan.Order("ranks").Kind() == "perm" { // a switch adds by tables that it shares with other communicators
		order := reduce.Given(reduce.Permutation(uint64(c.Plan.Int("communicators")), m.Size()))
		f.Program = order.Program(m.Size())
	}
	return f
}
