package tune

import (
	"firstbit/device"
	"firstbit/reduce"
)

// sharded is a kernel whose sum lies on so many ranks.
type sharded struct {
	*device.Kernel
	shards int
}

// canonical is a Call's plan under the canonical recipe: its kernel's fixed plan, with what the kernel sets over it, and the
// sums that ranks share cut where they may be parted. Parts are joined pairwise, so a power of two of consecutive
// ones is a whole subtree, on whichever rank it is added.
func (t *Tuner) canonical(k *device.Kernel, shards int) reduce.Plan {
	plan, seen := t.plans[sharded{k, shards}]
	if seen {
		return plan
	}
	plan, err := k.Fixed.With(k.Canonical)
	if err == nil && k.Tokens != "" {
		r := plan.Reduction(k.Tokens)
		r.Order = reduce.Blocked(max(t.Seq/device.Segments, 1))
		plan, err = plan.With(reduce.PlanOf(r))
	}
	if err == nil && k.Sharded != "" {
		r := plan.Reduction(k.Sharded)
		r.Order = reduce.Segments(max(device.Segments/shards, 1))
		plan, err = plan.With(reduce.PlanOf(r))
	}
	if err != nil {
		panic("tune: a kernel's canonical plan is not one of its plans: " + err.Error())
	}
	t.plans[sharded{k, shards}] = plan
	return plan
}

// pinned is a plan over the canonical recipe's: of sums that it gives to tensor cores in one chain, the recipe's order stays, and each part
// of that is a chain. A part lies on one rank, so every layout has the same chains.
func (t *Tuner) pinned(plan, recipe reduce.Plan) reduce.Plan {
	key := [2]reduce.Plan{plan, recipe}
	to, seen := t.pins[key]
	if seen {
		return to
	}
	to = plan
	for _, r := range plan.Reductions() {
		if r.MMA == "" || r.Order.String() != reduce.Seq.String() {
			continue
		}
		r.Order = recipe.Order(r.Name)
		next, err := to.With(reduce.PlanOf(r))
		if err != nil {
			panic("tune: the canonical order is none of the plan's: " + err.Error())
		}
		to = next
	}
	t.pins[key] = to
	return to
}
