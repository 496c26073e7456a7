package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"firstbit/device"
	"firstbit/reduce"
)

const maxTreeLeaves = 4096

func treeCommand() *cobra.Command {
	var n int
	var asJSON, svg, dot, full bool
	var schedule uint64
	c := &cobra.Command{
		Use:     "tree ORDER",
		Short:   "Draw an order of addition, with its depth, slots and error bound",
		Example: "  firstbit tree 'blocked(4)' -n 10\n  firstbit tree pairwise -n 16 --svg > pairwise.svg",
		Args:    exactArgs("ORDER"),
	}
	c.Flags().IntVarP(&n, "n", "n", 10, "leaves")
	c.Flags().Uint64Var(&schedule, "schedule", 0, "seed of the arrival order")
	c.Flags().BoolVar(&full, "full", false, fullHelp)
	c.Flags().BoolVar(&svg, "svg", false, "draw as SVG")
	c.Flags().BoolVar(&dot, "dot", false, "write Graphviz DOT")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.MarkFlagsMutuallyExclusive("json", "svg", "dot", "full")
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
			d.print(out, n, schedule, full)
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

const fullHelp = "draw every leaf, however many there are"

// drawnTree is a title with a tree, folded to a screenful unless all of it is wanted.
func drawnTree(title string, t reduce.Tree, full bool) string {
	head := fmt.Sprintf("%s: %s", title, t)
	if full || len(t.Leaves()) <= terminalLines-4 { // which leaves room for what else is said of it
		if !full && columns(head) > terminalWidth {
			head = wrap(title + ":")
		}
		return head + "\n" + t.Text()
	}
	return wrap(title+", folded (all of it: --full):") + "\n" + t.Folded(terminalLines-4).Text()
}

func (d sketch) print(out io.Writer, n int, schedule uint64, full bool) {
	t := d.tree
	fmt.Fprint(out, drawnTree(fmt.Sprintf("%s over %d", d.asked, n), t, full))
	if d.asked.Arrives() {
		tell(out, "by schedule %d: %s", schedule, d.order)
	}
	if by := d.order.Adder(); by != reduce.Rounded {
		tell(out, "%s", by.Describe())
	}
	tell(out, "depth %d, slots %d, error at most %d roundings of Σ|x|", t.Depth(), t.Slots(), t.Ulps())
}
