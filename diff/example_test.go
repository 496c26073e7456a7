package diff_test

import (
	"fmt"

	"firstbit/diff"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// Two traces are aligned by the names of Calls. The first record with equal inputs and other outputs is the origin.
func ExampleCompare() {
	var traces [2]trace.Trace
	for side, faults := range [][]string{nil, {"flip@layers.1.attn.wk step=2 elem=7 bit=3"}} {
		spec := run.Spec{Config: train.Pico(), Faults: faults, Trace: trace.Options{Level: trace.Op, Into: &traces[side]}}
		spec.Config.Steps = 3
		if _, err := run.Run(spec); err != nil {
			fmt.Println(err)
			return
		}
	}
	report, err := diff.Compare(&traces[0], &traces[1])
	if err != nil {
		fmt.Println(err)
		return
	}
	f := report.First
	fmt.Printf("%s of step %d: %s is the %s, class %s\n", f.Phase, f.Iteration, f.Path(), f.Verdict, *report.Class)
	for _, why := range report.Evidence {
		fmt.Println("  " + why)
	}
	// Output:
	// fwd of step 2: layers.1.attn.wk is the origin, class hardware
	//   all inputs equal, outputs differ
	//   same inputs, same plan, same library: nothing the software chose differs
	//   unconfirmed: no bytes were dumped at the root
}
