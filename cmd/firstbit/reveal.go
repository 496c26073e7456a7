package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"firstbit/device"
	"firstbit/experiments"
)

func revealCommand() *cobra.Command {
	var n int
	var asJSON bool
	var plan string
	var schedule uint64
	c := &cobra.Command{
		Use:   "reveal KERNEL",
		Short: "Recover the order of addition of a kernel from its outputs alone",
		Long: "Runs the kernel through the door on inputs made of masks and units, and recovers the tree by which it adds (FPRev).\n" +
			"Kernels: " + strings.Join(experiments.RevealNames(), ", "),
		Example: "  firstbit reveal matmul -n 16\n  firstbit reveal matmul -n 16 --plan 'k:blocked(4)/bf16'",
		Args:    exactArgs("KERNEL"),
	}
	c.Flags().IntVarP(&n, "n", "n", 16, "leaves of the sum")
	c.Flags().StringVar(&plan, "plan", "", "`ITEMS` of the kernel's plan to set")
	c.Flags().Uint64Var(&schedule, "schedule", 0, "seed of arrival orders")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		r, used, err := experiments.Reveal(args[0], plan, n, device.Schedule{Seed: schedule})
		if err != nil {
			return err
		}
		out := c.OutOrStdout()
		if asJSON {
			return printJSON(out, map[string]any{"tree": r.Tree.String(), "class": r.Class, "calls": r.Calls, "verified": r.Verified, "fused": r.Fused})
		}
		fmt.Fprintf(out, "%s by plan %q over %d: %s\n%s", args[0], used, n, r.Tree, r.Tree.Text())
		fmt.Fprintf(out, "class %s, %d calls, verified on random inputs: %v\n", r.Class, r.Calls, r.Verified)
		if r.Fused != nil {
			fmt.Fprintf(out, "adds %s\n", r.Fused)
		}
		return nil
	}
	return c
}
