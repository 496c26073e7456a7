package parallel

import (
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
)

// Completion is the choice of an order in which things that are under way complete, such as microbatches or buckets: in turn, or by
// another order of its plan.
type Completion struct {
	kernel       *device.Kernel
	order, count string // what the plan calls the order, and the Call their number
}

// NewCompletion has a plan of one order over things. If they race, a user of GPUs gets them as they arrive.
func NewCompletion(order, count string, race bool) *Completion {
	k := &device.Kernel{Name: "completion", Scalars: device.Names(count), Out: device.Names("order"), Fixed: reduce.MustPlan(order + ":seq/fp32")}
	if race {
		k.Fast = reduce.MustPlan(order + ":arrival/fp32")
	}
	x := &Completion{k, order, count}
	k.Run = x.run
	return x
}

// Of lists n things in the order in which they complete. Ranks that must agree draw arrival for one place among them; nil: the rank's own.
func (x *Completion) Of(dev *device.Device, label string, n int, among *device.Coord) []int32 {
	c := dev.Open(label, x.kernel)
	c.Among = among
	c.ReadScalar(x.count, float64(n))
	order := c.Write("order", lowp.INT32, n)
	c.Do()
	return order.I32()
}

func (x *Completion) run(c *device.Call) {
	order := c.Output("order").I32()
	for i, which := range c.Order(x.order, len(order)).Tree(len(order)).Leaves() {
		order[i] = int32(which) // fits: it is below their number
	}
}
