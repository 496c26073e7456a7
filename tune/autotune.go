package tune

import (
	"fmt"
	"strings"

	"firstbit/device"
	"firstbit/reduce"
)

// variants are the kernels that a library has for the same call, by the name of ours, each as items over the plan of the recipe.
var variants = map[string][]reduce.Plan{
	"matmul":       products,
	"matmul.wgrad": products,
	"grouped_gemm": products[:3],
	"ssd":          chunks,
	"ssd.bwd":      chunks,
}

var (
	products = plans("k:seq/fp32", "k:splitk(2)/fp32", "k:splitk(4)/fp32", "k:lanes(8)/fp32")
	chunks   = plans("chunk=16", "chunk=8", "chunk=32")
)

func plans(items ...string) (all []reduce.Plan) {
	for _, s := range items {
		all = append(all, reduce.MustPlan(s))
	}
	return all
}

// Autotune runs every variant of a kernel at the first Call of a shape and keeps the one that finished first, as the schedule has it: the
// variants are so close that noise decides.
type Autotune struct {
	kept map[string]reduce.Plan // by kernel and shapes
}

// First has policies by hand pin the choice.
func (a *Autotune) First() bool { return true }

// Choices are the variants: noise decides.
func (a *Autotune) Choices(c *device.Call) []reduce.Plan { return variants[c.Kernel.Name] }

// Over is the plan of the variant for the Call's shapes.
func (a *Autotune) Over(c *device.Call, _ reduce.Plan) (reduce.Plan, error) {
	all := variants[c.Kernel.Name]
	if all == nil {
		return c.Plan, nil
	}
	key := shapes(c)
	kept, tuned := a.kept[key]
	if !tuned {
		if a.kept == nil {
			a.kept = map[string]reduce.Plan{}
		}
		kept = all[c.Arrival("tuner", len(all))[0]]
		a.kept[key] = kept
	}
	return c.Plan.With(kept)
}

// shapes is what a tuner keeps its choices by.
func shapes(c *device.Call) string {
	var b strings.Builder
	b.WriteString(c.Kernel.Name)
	for _, a := range c.In {
		fmt.Fprint(&b, " ", a.Format, a.Shape())
	}
	return b.String()
}

// Captured is the plan of recipe fast, as a kernel keeps it that was set up before anything was chosen.
type Captured struct{}

// First has it come last: it goes over the policies by hand.
func (Captured) First() bool { return false }

// Choices is nothing: whatever the plan is, it comes too late to be what was set.
func (Captured) Choices(*device.Call) []reduce.Plan { return nil }

// Over is the fast plan.
func (Captured) Over(c *device.Call, _ reduce.Plan) (reduce.Plan, error) {
	if c.Kernel.Fast.Empty() {
		return c.Kernel.Fixed, nil
	}
	return c.Kernel.Fast, nil
}
