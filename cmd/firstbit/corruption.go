package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"firstbit/corrupt"
	"firstbit/run"
)

func corruptionCommand() *cobra.Command {
	var seed uint64
	var n int
	var asJSON bool
	c := &cobra.Command{
		Use:   "corruption",
		Short: "Break small runs as hardware does, and see which way of looking finds it",
		Long: "Break small runs as hardware does, and see which way of looking finds it, at what cost, and whether it names the rank and the Call.\n\n" +
			corruptionHelp,
		Example: "  firstbit swarm corruption --seed 1 --n 500\n  firstbit swarm corruption --n 24 --json",
		Args:    noArgs,
	}
	fs := c.Flags()
	fs.Uint64Var(&seed, "seed", 1, "`SEED` from which all faults follow")
	fs.IntVar(&n, "n", 100, "how many faults: a `NUMBER`")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if n < 1 || n > 1<<20 {
			return fmt.Errorf("--n %d: must be from 1 to %d", n, 1<<20)
		}
		return interruptible(func(ctx context.Context) error { return corruption(ctx, c.OutOrStdout(), seed, n, asJSON) }, again)
	}
	return c
}

const corruptionHelp = `A fault is drawn at a Call of one rank: NaN or infinity, one bit or several, of one element or of those of a lane of a warp, in one step or
from it on (docs/corruption.md). Runs are the preset pico in layouts of 2 and 4 ranks with a replicated optimizer.

Steps are rerun as Megatron's rerun state machine does: what the same place does not repeat is transient; what it repeats and another place does not is
persistent. A Call is then found by replays of the step, half as far as the one before, or from digests of every Call.
`

func corruption(ctx context.Context, out io.Writer, seed uint64, n int, asJSON bool) error {
	bar := newProgress("corruption", n)
	r, err := corrupt.Run(ctx, corrupt.Options{Seed: seed, N: n, Done: bar.step})
	bar.done()
	if err != nil && ctx.Err() != nil {
		return &run.Interrupted{}
	}
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(out, r)
	}
	printCorruption(out, r)
	return nil
}

func printCorruption(out io.Writer, r *corrupt.Result) {
	fmt.Fprintf(out, "seed %d, %d faults: %d transient, %d lasting; %d reach no metric and no state. Drawn besides: %d that left the same bits, %d that ended the run\n",
		r.Seed, r.N, r.Transient, r.Lasting, r.Masked, r.Harmless, r.Loud)
	fmt.Fprintf(out, "%-29s %5s %6s %10s %8s %8s %6s %6s %6s %12s\n", "", "steps", "found", "transient", "lasting", "verdict", "named", "rank", "call", "not found in")
	for _, f := range r.Finders {
		fmt.Fprintf(out, "%-29s %5g %6d %10d %8d %8d %6d %6d %6d fwd %d, bwd %d, opt %d\n",
			f.Name, f.Cost, f.Transient+f.Lasting, f.Transient, f.Lasting, f.Verdict, f.Named, f.Rank, f.Call, f.Missed["fwd"], f.Missed["bwd"], f.Missed["opt"])
	}
	for _, f := range r.Finders {
		if f.Replays > 0 {
			fmt.Fprintf(out, "%s: %.1f replays in each place to find a Call, together %.1f steps\n", f.Name, f.Replays, f.Part)
		}
	}
}
