package tune

import (
	"firstbit/device"
	"firstbit/reduce"
)

// canonical is a kernel's plan under the canonical recipe: its fixed plan, with what the kernel sets over it, and the
// sum over tokens cut by sequence. Blocks of one sequence are joined pairwise, so a power of two of
// consecutive sequences is a whole subtree, on whichever rank it is added.
func (t *Tuner) canonical(k *device.Kernel) reduce.Plan {
	plan, seen := t.plans[k]
	if seen {
		return plan
	}
	plan, err := k.Fixed.With(k.Canonical)
	if err == nil && k.Tokens != "" {
		r := plan.Reduction(k.Tokens)
		r.Order = reduce.Blocked(t.Seq)
		plan, err = plan.With(reduce.PlanOf(r))
	}
	if err != nil {
		panic("tune: a kernel's canonical plan is not one of its plans: " + err.Error())
	}
	t.plans[k] = plan
	return plan
}
