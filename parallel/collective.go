package parallel

import (
	"runtime"
	"sync"

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
	reduceScatter = adding(scatterName, addAll[float32], addAll[float64])
	allGather     = &device.Kernel{Name: "all_gather"}
	sumCounts     = &device.Kernel{Name: "all_reduce.int"}
)

const scatterName = "reduce_scatter"

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
			Fast:      reduce.MustPlan("ranks:ring" + acc + "; channels=4; ring=1; communicators=1; tuned=true|false"),
			Canonical: reduce.MustPlan("ranks:pairwise/fp32")}
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
			each(calls, len(sum), func(c *device.Call) { copy(c.Out[0].I32(), sum) })
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
			whole := calls[0].Out[0].Tensor
			for i, from := range calls {
				lo, _ := Shard(n, len(calls), i)
				whole.CopyAt(lo, from.In[0].Tensor)
			}
			each(calls[1:], n, func(c *device.Call) { c.Out[0].CopyAt(0, whole) })
		})
	}
	c.Do()
	return y
}

func runAllReduce[T libm.Float](calls []*device.Call, m Member) {
	addAll[T](calls, m)
	sum := calls[0].Out[0].Tensor
	each(calls[1:], sum.Len(), func(c *device.Call) { c.Out[0].CopyAt(0, sum) })
}

// addAll adds what the members bring, part by part, each into the output of the member that is to have it.
func addAll[T libm.Float](calls []*device.Call, m Member) {
	in := make([][]T, len(calls))
	for i, c := range calls {
		in[i] = device.Data[T](c.In[0].Tensor)
	}
	parts := m.partsOf(calls[0])
	pieces := make([]kernel.Piece[T], len(parts))
	for i, p := range parts {
		pieces[i] = kernel.Piece[T]{Dst: device.Data[T](calls[p.to].Out[0].Tensor)[p.from:][:p.Hi-p.Lo], At: p.Lo, Fold: p.fold}
	}
	kernel.ReduceMembers(pieces, in)
}

// spreadFrom is the number of elements to copy below which handing work over costs more than it saves.
const spreadFrom = 1 << 15

// each does something to so many elements for each Call, on all processors. The Calls' outputs are apart.
func each(calls []*device.Call, elements int, do func(c *device.Call)) {
	workers := min(runtime.GOMAXPROCS(0), len(calls), 1+len(calls)*elements/spreadFrom)
	var others sync.WaitGroup
	for w := range workers {
		mine := calls[w*len(calls)/workers : (w+1)*len(calls)/workers]
		work := func() {
			for _, c := range mine {
				do(c)
			}
		}
		if w == workers-1 {
			work()
			break
		}
		others.Go(work)
	}
	others.Wait()
}
