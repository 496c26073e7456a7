package device

import (
	"fmt"

	"firstbit/kernel"
	"firstbit/reduce"
)

// Fold is the named reduction of the Call's Plan, resolved for n leaves. An order that is not one for
// n leaves is reported by Device.Err, and the sum runs in sequence.
func (c *Call) Fold(name string, n int) kernel.Fold {
	r := c.Plan.Reduction(name)
	if n > 0 && !r.Order.Fits(n) {
		c.dev.misfit(c, r, n)
		r.Order = reduce.Seq
	}
	if !r.Order.Concrete() {
		r.Order = c.Order(name, n)
	}
	return kernel.Fold{Program: r.Order.Program(n), Acc: r.Acc, FMA: r.FMA}
}

// FoldAt is Fold for a place in a message: where an order depends on that, it is resolved.
func (c *Call) FoldAt(name string, n int, at reduce.Context) kernel.Fold {
	r := c.Plan.Reduction(name)
	at.Arrival = func(n int) []int { return c.Arrival(name, n) }
	if r.Order.Kind() != "given" || r.Order.Fits(n) {
		r.Order = r.Order.Resolve(at, n)
	}
	if !r.Order.Fits(n) {
		c.dev.misfit(c, r, n)
		r.Order = reduce.Seq
	}
	return kernel.Fold{Program: r.Order.Program(n), Acc: r.Acc, FMA: r.FMA}
}

// misfit keeps the first order that is not one for the sum it was set for: kernels have no errors, and
// only they know how many leaves there are.
func (r *rank) misfit(c *Call, sum reduce.Reduction, n int) {
	if r.err == nil {
		r.err = fmt.Errorf("plan for %s (%s): %.80s: %w", c.ID.Path, c.Kernel.Name, sum, sum.Order.Check(n))
	}
}

// Err is the first Plan that did not fit what its Call had to add.
func (d *Device) Err() error { return d.err }

// Width makes a Kernel's Run of its two instantiations: float64 when any
// tensor of the Call is fp64, else float32.
func Width(run32, run64 func(*Call)) func(*Call) {
	return func(c *Call) {
		if wide(c.Out) || wide(c.In) {
			run64(c)
			return
		}
		run32(c)
	}
}

func wide(args []Arg) bool {
	for i := range args {
		if args[i].f64 != nil {
			return true
		}
	}
	return false
}
