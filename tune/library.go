package tune

import (
	"fmt"
	"slices"

	"firstbit/device"
	"firstbit/reduce"
	"firstbit/spell"
)

// release is a simulated release of the kernel library: what it ships otherwise than the one before, by the kernel's name.
type release struct {
	name  string
	ships []shipped
}

type shipped struct {
	kernel string
	items  reduce.Plan // over the plan that the recipe gives the kernel
}

// releases are in the order in which they came out. The first ships every kernel as its recipe has it.
//
// They are a model of what release notes name and of what they leave out: another block size, another instruction, another tile for the
// same call; the second has tiles of its own and the same bits.
var releases = []release{
	{name: device.DefaultLibrary},
	{"sim-12.9", []shipped{{"grouped_gemm.dprob", reduce.MustPlan("grid=8")}}},
	{"sim-13.0", []shipped{{"attention", reduce.MustPlan("p:lanes(4)/fp32")}, {"rmsnorm.wgrad", reduce.MustPlan("rows:blocked(16)/fp32")}}},
	{"sim-13.1", []shipped{{"matmul", reduce.MustPlan("k:lanes(8)/fp32")}}},
	{"sim-13.2", []shipped{{"causal_conv1d", reduce.MustPlan("taps:seq/fp32/fma")}}}, // its compiler fuses multiply and add there
	{"sim-13.3", []shipped{{"ssd", reduce.MustPlan("chunk=8")}, {"ssd.bwd", reduce.MustPlan("chunk=8")}}},
}

// Releases are the names of the releases, in the order in which they came out.
func Releases() (names []string) {
	for _, r := range releases {
		names = append(names, r.name)
	}
	return names
}

// Between are the releases from one to another, both among them, oldest first where a is the older.
func Between(a, b string) ([]string, error) {
	names := Releases()
	i, j := slices.Index(names, a), slices.Index(names, b)
	for k, name := range []string{a, b} {
		if [2]int{i, j}[k] < 0 {
			return nil, ParseRelease(name)
		}
	}
	if i <= j {
		return names[i : j+1], nil
	}
	names = slices.Clone(names[j : i+1])
	slices.Reverse(names)
	return names, nil
}

// ParseRelease checks the name of a release.
func ParseRelease(s string) error {
	if names := Releases(); !slices.Contains(names, s) {
		return fmt.Errorf("library %q: %s", s, spell.OneOf(s, names))
	}
	return nil
}

// library is what a release ships for kernels, by their names; nil: each as its recipe has it.
func library(name string) map[string]reduce.Plan {
	var all map[string]reduce.Plan
	for _, r := range releases {
		for _, s := range r.ships {
			if all == nil {
				all = map[string]reduce.Plan{}
			}
			plan, err := all[s.kernel], error(nil)
			if plan.Empty() {
				plan = s.items
			} else if plan, err = plan.With(s.items); err != nil {
				panic("tune: a release ships what the one before did not have: " + err.Error())
			}
			all[s.kernel] = plan
		}
		if r.name == name {
			return all
		}
	}
	return nil
}

// Ship puts what a release ships over a Call's plan.
func Ship(c *device.Call, items reduce.Plan) error {
	if items.Empty() {
		return nil
	}
	plan, err := c.Plan.With(items)
	if err == nil {
		c.Plan = plan
	}
	return err
}

// Release is another release of the library for some Calls.
type Release struct {
	Name  string
	ships map[string]reduce.Plan
}

// First has policies by hand pin what a release ships.
func (r *Release) First() bool { return true }

// Choices is nothing: a release has one kernel for a call.
func (r *Release) Choices(*device.Call) []reduce.Plan { return nil }

// Over is the plan that the release ships.
func (r *Release) Over(c *device.Call, recipe reduce.Plan) (reduce.Plan, error) {
	if r.ships == nil {
		r.ships = library(r.Name)
	}
	c.Library = r.Name
	return recipe.With(r.ships[c.Kernel.Name])
}
