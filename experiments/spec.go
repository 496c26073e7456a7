package experiments

import (
	"fmt"
	"slices"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

// spec is run side of a pair under a setting, from its beginning.
func (c *Cause) spec(s setting, side int) run.Spec {
	v := c.vary[side]
	if !s.source {
		v.library, v.plans, v.faults, v.set = "", nil, nil, nil
	}
	config, layout := c.configured(slices.Concat(v.set, s.set)), c.Layout()
	if c.across && s.source && side == 0 {
		config.Micro *= layout.DP
		layout = parallel.Layout{}.Full()
	}
	return run.Spec{
		Config:   config,
		Layout:   layout,
		Schedule: device.Schedule{Seed: v.schedule},
		Recipe:   s.recipe,
		Library:  v.library,
		Plans:    slices.Concat(v.plans, s.plans),
		Faults:   slices.Concat(v.faults, s.faults),
		Kept:     run.Kept{Digest: true, Elements: len(v.set) > 0 || c.across},

		Interrupt: c.interrupt,
	}
}

// configured is the cause's configuration with some fields set.
func (c *Cause) configured(set []string) train.Config {
	config := c.config()
	for _, field := range set {
		if err := config.Set(field); err != nil {
			panic(err) // the catalog is ours
		}
	}
	return config
}

// Flags are those of train that make the runs of the broken pair, or of the cured one, besides configuration and layout: each flag
// followed by its value.
func (c *Cause) Flags(cured bool) (pair [2][]string) {
	setting := c.broken
	if cured {
		setting = c.cured
	}
	for side := range pair {
		spec := c.spec(setting, side)
		flags := []string{"--schedule", fmt.Sprint(c.vary[side].schedule)}
		add := func(name string, values ...string) {
			for _, v := range values {
				if v != "" {
					flags = append(flags, name, v)
				}
			}
		}
		add("--library", spec.Library)
		add("--recipe", setting.recipe)
		add("--plan", spec.Plans...)
		add("--inject", spec.Faults...)
		if setting.source {
			add("--set", c.vary[side].set...)
		}
		add("--set", setting.set...)
		pair[side] = flags
	}
	return pair
}
