package run_test

import (
	"fmt"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

// A Spec is all that decides the bits of a run. Arrival is part of it, so a race replays, and a fixed order leaves nothing to it.
func ExampleRun() {
	spec := run.Spec{Config: train.Pico(), Layout: parallel.Layout{DP: 2}, Kept: run.Kept{Digest: true}}
	spec.Config.Steps = 2
	state := func(schedule uint64, plans ...string) string {
		s := spec
		s.Schedule, s.Plans = device.Schedule{Seed: schedule}, plans
		o, err := run.Run(s)
		if err != nil {
			return err.Error()
		}
		return o.Steps[1].State
	}
	const race = "layers.1.attn.wk.dw k:splitk(4,arrival)"
	fmt.Println("fixed, under two schedules:  ", state(1) == state(2))
	fmt.Println("a race, under two schedules: ", state(1, race) == state(2, race))
	once, again := state(1, race), state(1, race)
	fmt.Println("a race, under one twice:     ", once == again)
	// Output:
	// fixed, under two schedules:   true
	// a race, under two schedules:  false
	// a race, under one twice:      true
}
