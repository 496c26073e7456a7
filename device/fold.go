package device

import "firstbit/kernel"

// Fold is the named reduction of the Call's Plan, resolved for n leaves.
func (c *Call) Fold(name string, n int) kernel.Fold {
	r := c.Plan.Reduction(name)
	if !r.Order.Concrete() {
		r.Order = c.Order(name, n)
	}
	return kernel.Fold{Program: r.Order.Program(n), Acc: r.Acc, FMA: r.FMA}
}

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
