package tune

import (
	"firstbit/device"
	"firstbit/reduce"
)

// fused is a Call's plan under the fused recipe: its kernel's fixed plan, where each product of two matrices' elements is rounded once with the sum
// that it is added to.
func (t *Tuner) fused(k *device.Kernel) reduce.Plan {
	if len(k.Products) == 0 {
		return k.Fixed
	}
	key := sharded{k, 1}
	plan, seen := t.plans[key]
	if seen {
		return plan
	}
	plan = k.Fixed
	for _, name := range k.Products {
		r := plan.Reduction(name)
		r.FMA = true
		var err error
		if plan, err = plan.With(reduce.PlanOf(r)); err != nil {
			panic("tune: a kernel's products are not in its plan: " + err.Error())
		}
	}
	t.plans[key] = plan
	return plan
}
