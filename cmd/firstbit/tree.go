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
		d, err := drawn(args[0], n, schedule)
		if err != nil {
			return err
		}
		out := c.OutOrStdout()
		switch t := d.tree; {
		case asJSON:
			v := map[string]any{"order": d.asked.String(), "n": n, "tree": t.String(), "depth": t.Depth(), "slots": t.Slots(), "ulps": t.Ulps()}
			if d.asked.Arrives() {
				v["resolved"] = d.order.String()
			}
			return printJSON(out, v)
		case svg:
			fmt.Fprint(out, t.SVG())
		case dot:
			fmt.Fprint(out, t.DOT())
		default:
			fmt.Fprint(out, d.text(n, schedule))
		}
		return nil
	}
	return c
}

// sketch is an order as it was asked for, as it was resolved, and its tree.
type sketch struct {
	asked, order reduce.Order
	tree         reduce.Tree
}

func drawn(text string, n int, schedule uint64) (d sketch, err error) {
	if d.asked, err = reduce.ParseOrder(text); err != nil {
		return d, err
	}
	if n < 0 || n > maxTreeLeaves {
		return d, fmt.Errorf("-n %d: must be from 0 to %d", n, maxTreeLeaves)
	}
	if err := d.asked.Check(n); err != nil { // before it is resolved: here no element lies anywhere
		return d, fmt.Errorf("order %.80q: %w", d.asked, err)
	}
	s := device.Schedule{Seed: schedule}
	d.order = d.asked.Resolve(reduce.Context{Arrival: func(n int) []int { return s.Arrival(0, device.ID{}, "tree", n) }}, n)
	d.tree = d.order.Tree(n)
	return d, nil
}

func (d sketch) text(n int, schedule uint64) string {
	t := d.tree
	s := fmt.Sprintf("%s over %d: %s\n%s", d.asked, n, t, t.Text())
	if d.asked.Arrives() {
		s += fmt.Sprintf("by schedule %d: %s\n", schedule, d.order)
	}
	if by := d.order.Adder(); by != reduce.Rounded {
		s += by.Describe() + "\n"
	}
	return s + fmt.Sprintf("depth %d, slots %d, error at most %d roundings of Σ|x|\n", t.Depth(), t.Slots(), t.Ulps())
}
