package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"firstbit/device"
	"firstbit/reduce"
)

const maxTreeLeaves = 4096

func treeCommand() *cobra.Command {
	var n int
	var asJSON, svg, dot bool
	var schedule uint64
	c := &cobra.Command{
		Use:     "tree ORDER",
		Short:   "Draw an order of addition, with its depth, slots and error bound",
		Example: "  firstbit tree 'blocked(4)' -n 10\n  firstbit tree pairwise -n 16 --svg > pairwise.svg",
		Args:    exactArgs("ORDER"),
	}
	c.Flags().IntVarP(&n, "n", "n", 10, "leaves")
	c.Flags().Uint64Var(&schedule, "schedule", 0, "seed of the arrival order")
	c.Flags().BoolVar(&svg, "svg", false, "draw as SVG")
	c.Flags().BoolVar(&dot, "dot", false, "write Graphviz DOT")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.MarkFlagsMutuallyExclusive("json", "svg", "dot")
	c.RunE = func(c *cobra.Command, args []string) error {
		t, order, err := treeOf(args[0], n, schedule)
		if err != nil {
			return err
		}
		out := c.OutOrStdout()
		switch {
		case asJSON:
			return printJSON(out, map[string]any{"order": order.String(), "n": n, "tree": t.String(), "depth": t.Depth(), "slots": t.Slots(), "ulps": t.Ulps()})
		case svg:
			fmt.Fprint(out, t.SVG())
		case dot:
			fmt.Fprint(out, t.DOT())
		default:
			fmt.Fprintf(out, "%s over %d: %s\n%s", order, n, t, t.Text())
			fmt.Fprintf(out, "depth %d, slots %d, error at most %d roundings of Σ|x|\n", t.Depth(), t.Slots(), t.Ulps())
		}
		return nil
	}
	return c
}

func treeOf(text string, n int, schedule uint64) (reduce.Tree, reduce.Order, error) {
	o, err := reduce.ParseOrder(text)
	if err != nil {
		return reduce.Tree{}, o, err
	}
	if n < 0 || n > maxTreeLeaves {
		return reduce.Tree{}, o, fmt.Errorf("-n %d: must be from 0 to %d", n, maxTreeLeaves)
	}
	if err := o.Check(n); err != nil { // before it is resolved: here no element lies anywhere
		return reduce.Tree{}, o, fmt.Errorf("order %.80q: %w", o, err)
	}
	s := device.Schedule{Seed: schedule}
	o = o.Resolve(reduce.Context{Arrival: func(n int) []int { return s.Arrival(0, device.ID{}, "tree", n) }}, n)
	return o.Tree(n), o, nil
}
