package trace_test

import (
	"fmt"

	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// A trace has a record for each Call: who it was, what it read and from whom, what it wrote, and by which plan.
// Open reads such a trace from a folder.
func Example() {
	var kept trace.Trace
	spec := run.Spec{Config: train.Pico(), Trace: trace.Options{Level: trace.Op, Into: &kept}}
	spec.Config.Steps = 1
	if _, err := run.Run(spec); err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range kept.Ranks[0].Records {
		if trace.Path(r.Scope, r.Name) == "layers.1.attn.wk" && r.Phase == "fwd" {
			fmt.Println(r.Kind, r.Scope, r.Name, "by plan", r.Plan)
			for _, in := range r.In {
				fmt.Println("  read", in.Name, in.Shape, in.Dtype, "from", *in.From)
			}
			fmt.Println("  wrote", r.Out[0].Name, r.Out[0].Shape, r.Out[0].Dtype)
		}
	}
	// Output:
	// op layers.1.attn wk by plan k:seq/fp32
	//   read a [16 16] fp32 from fwd layers.1.norm#y
	//   read b [16 8] fp32 from init layers.1.attn.wk
	//   wrote y [16 8] fp32
}
