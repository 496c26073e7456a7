package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"firstbit/device"
	"firstbit/run"
	"firstbit/spell"
)

func ordersCommand() *cobra.Command {
	var f trainFlags
	var at run.Site
	var rank int
	var sum string
	var orders []string
	var svg bool
	c := &cobra.Command{
		Use:   "orders CALL",
		Short: "Compare orders of addition on the real operands of one Call of a run",
		Long: "Run one Call of a run by each of several orders of one of its sums, on the operands that it had there, gradients included: for each order\n" +
			"its tree, its error against the exact sum in ulps of what is written, the partial sums alive at once if values stream in, its time, and of a\n" +
			"collective its messages.",
		Example: "  firstbit orders layers.1.attn.wq --preset tiny --step 3 --order seq --order pairwise --order 'splitk(4)/fp32~bf16'\n" +
			"  firstbit orders grads.bucket.0 --phase opt --preset pico --layout dp=8 --order ring --order 'tree((((0 1) (2 3)) ((4 5) (6 7))))' --json",
		Args: exactArgs("CALL"),
	}
	f.add(c)
	fs := c.Flags()
	fs.StringArrayVar(&orders, "order", nil, "an `'ORDER[/FORMAT]'` to compare; repeatable")
	fs.StringVar(&sum, "sum", "", "the `NAME` of the sum in the Call's plan; its first unless given")
	fs.IntVar(&at.Step, "step", 1, "the `STEP`")
	fs.IntVar(&at.Micro, "micro", 0, "the `MICROBATCH`")
	fs.StringVar(&at.Phase, "phase", "fwd", "the `PHASE`: fwd, rec, bwd, opt")
	fs.IntVar(&rank, "rank", 0, "the `RANK` of a Call that ranks do not make together")
	fs.BoolVar(&svg, "svg", false, "draw errors and trees as SVG")
	c.MarkFlagsMutuallyExclusive("json", "svg")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(orders) == 0 {
			return errors.New("orders: --order ORDER must be given, best several times")
		}
		for _, name := range ownOutputs {
			if fs.Changed(name) && name != "json" {
				return fmt.Errorf("--%s: orders writes no files", name)
			}
		}
		s, err := f.spec(fs.Changed)
		if err != nil {
			return err
		}
		if _, ok := device.ParsePhase(at.Phase); !ok {
			return fmt.Errorf("--phase %q: %s", at.Phase, spell.OneOf(at.Phase, device.PhaseNames()))
		}
		if at.Step < 1 || at.Step > s.Config.Steps || at.Micro < 0 || rank < 0 || rank >= s.Layout.World() {
			return fmt.Errorf("--step %d --micro %d --rank %d: must be a step of the run, from 1 to %d, a microbatch, and a rank from 0 to %d", at.Step, at.Micro, rank, s.Config.Steps, s.Layout.World()-1)
		}
		at.Path = args[0]
		x, err := run.Extract(s, at, rank)
		if err != nil {
			return err
		}
		rows, name, leaves, err := x.Orders(sum, orders)
		if err != nil {
			return err
		}
		out := c.OutOrStdout()
		switch {
		case f.json:
			return printJSON(out, map[string]any{"call": at.Path, "sum": name, "leaves": leaves, "orders": rows})
		case svg:
			_, err = io.WriteString(out, ordersSVG(rows))
			return err
		}
		fmt.Fprintf(out, "%s of step %d, %s: sum %s of %d values, %s\n", at.Path, at.Step, at.Phase, name, leaves, x.Kernel)
		return printOrders(out, rows)
	}
	return c
}

func printOrders(out io.Writer, rows []run.Ordered) error {
	collective := false
	for _, r := range rows {
		collective = collective || r.Hops > 0
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "order\tdepth\tbound\troundings\talive\tmean ulps\tp99\tmax\tns/value\tdiffers from the first\t"
	if collective {
		head += "hops\tbytes\tbetween nodes\tof a rank\t"
	}
	fmt.Fprintln(w, head)
	for _, r := range rows {
		fmt.Fprintf(w, "%s/%s\t%d\t%d\t%d\t%d\t%.3f\t%d\t%d\t%.2f\t%.1f %%\t", short(r.Order), r.Format, r.Depth, r.Bound, r.Roundings, r.Alive, r.Error.Mean, r.Error.P99, r.Error.Max, r.NS, 100*r.Between[0])
		if collective {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t", r.Hops, r.Bytes.All, r.Bytes.Between, r.Bytes.OfRank)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// shortMost is the length of an order that a table shows.
const shortMost = 40

func short(order string) string {
	if len(order) <= shortMost {
		return order
	}
	return order[:shortMost-1] + "…"
}

// drawnLeaves is the number of leaves up to which a picture has the trees.
const drawnLeaves = 64

// ordersSVG is a bar for the mean and the largest error of every order, and the trees below one another.
func ordersSVG(rows []run.Ordered) string {
	const line, bar, left = 34, 300, 330
	largest := 1.0
	for _, r := range rows {
		largest = max(largest, float64(r.Error.Max))
	}
	var b strings.Builder
	y := 20
	for _, r := range rows {
		fmt.Fprintf(&b, `<text x="8" y="%d">%s/%s</text>`+"\n", y+12, short(r.Order), r.Format)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="10" fill="#c99"/>`+"\n", left, y, bar*float64(r.Error.Max)/largest)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="10" fill="#933"/>`+"\n", left, y+10, bar*r.Error.Mean/largest)
		fmt.Fprintf(&b, `<text x="%d" y="%d">max %d, mean %.3f ulps</text>`+"\n", left+bar+8, y+14, r.Error.Max, r.Error.Mean)
		y += line
	}
	width := left + bar + 200
	for _, r := range rows {
		if leaves := len(r.Sum.Leaves()); leaves <= drawnLeaves {
			fmt.Fprintf(&b, `<text x="8" y="%d">%s</text><g transform="translate(0,%d)">`+"\n%s</g>\n", y+12, short(r.Order), y+16, r.Sum.SVG())
			y += 18*leaves + 60
			width = max(width, 100+28*(r.Depth+2))
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="12">`+"\n"+`<rect width="%d" height="%d" fill="white"/>`+"\n%s</svg>\n",
		width, y, width, y, b.String())
}
