package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firstbit/experiments"
	"firstbit/reduce"
)

func revealCommand() *cobra.Command {
	var q experiments.Revealing
	var asJSON, full bool
	var program string
	var wait int
	c := &cobra.Command{
		Use:   "reveal [KERNEL]",
		Short: "Recover the order of addition of a kernel, a collective or a program from its outputs alone",
		Long: "Runs the kernel through the door on inputs made of masks and units, recovers the tree by which it adds (FPRev), and replays it on random\n" +
			"inputs. What gives other bits is tried as what else it may be: another format of partial sums, a fused, exact or compensated sum, an order that\n" +
			"varies from call to call, or no sum. Of a collective, -n is the number of ranks.\n" +
			"--exec asks a program instead: it reads vectors, one a line, numbers in decimal that round-trip, and prints one sum a line.\n" +
			"Kernels: " + strings.Join(experiments.RevealNames(), ", "),
		Example: "  firstbit reveal matmul -n 16\n  firstbit reveal matmul -n 16 --plan 'k:blocked(4)/bf16'\n  firstbit reveal all_reduce -n 8 --plan 'ranks:ring; channels=2' --elements 64 --element 5\n" +
			"  firstbit reveal -n 64 --exec 'python3 scripts/reveal/numpy_sum.py'",
		Args: cobra.MaximumNArgs(1),
	}
	fs := c.Flags()
	fs.IntVarP(&q.N, "n", "n", 16, "leaves of the sum")
	fs.StringVar(&q.Plan, "plan", "", "`ITEMS` of the kernel's plan to set")
	fs.Uint64Var(&q.Schedule.Seed, "schedule", 0, "seed of arrival orders")
	fs.IntVar(&q.Elements, "elements", 1, "of a collective: elements of its message")
	fs.IntVar(&q.Element, "element", 0, "of a collective: which `ELEMENT` is asked about")
	fs.IntVar(&q.Node, "node", 4, "of a collective: ranks of a node")
	fs.StringVar(&program, "exec", "", "ask the program that `COMMAND` starts, and that stays alive")
	fs.IntVar(&wait, "timeout", 30, "`SECONDS` that the program may take for an answer")
	fs.BoolVar(&full, "full", false, fullHelp)
	fs.BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		if fs.Changed("timeout") && program == "" {
			return errors.New("--timeout: needs --exec COMMAND")
		}
		for _, name := range []string{"elements", "element", "node"} {
			if fs.Changed(name) && (len(args) == 0 || !experiments.IsCollective(args[0])) {
				return fmt.Errorf("--%s: is for collectives", name)
			}
		}
		var r reduce.Revealed
		var what string
		var err error
		switch {
		case program != "":
			if len(args) > 0 || q.Plan != "" || wait < 1 {
				return errors.New("--exec: KERNEL and --plan exclude it, and --timeout must be at least 1")
			}
			what = program
			r, err = revealProgram(program, q.N, time.Duration(wait)*time.Second)
		case len(args) == 0:
			return errors.New("reveal: KERNEL or --exec must be given")
		default:
			var used reduce.Plan
			q.Kernel = args[0]
			r, used, err = experiments.Reveal(q)
			what = fmt.Sprintf("%s by plan %q", q.Kernel, used)
		}
		if err != nil {
			return err
		}
		out := c.OutOrStdout()
		if asJSON {
			return printJSON(out, revealedJSON(r))
		}
		printRevealed(out, what, q.N, r, full)
		return nil
	}
	return c
}

// shownMost is the number of values of a counter-example that a line shows.
const shownMost = 8

func revealedJSON(r reduce.Revealed) map[string]any {
	v := map[string]any{"tree": r.Tree.String(), "class": r.Class, "detail": r.Detail, "calls": r.Calls, "checks": r.Checks, "verified": r.Verified, "fused": r.Fused}
	if x := r.Counter; x != nil {
		v["counter_example"] = map[string]any{"x": decimals(x.X), "got": decimal(x.Got), "want": decimal(x.Want)}
	}
	return v
}

func printRevealed(out io.Writer, what string, n int, r reduce.Revealed, full bool) {
	fmt.Fprint(out, drawnTree(fmt.Sprintf("%s over %d", what, n), r.Tree, full))
	if r.Detail != "" {
		fmt.Fprintf(out, "%s\n", r.Detail)
	}
	if x := r.Counter; x != nil {
		shown, more := decimals(x.X), ""
		if len(shown) > shownMost {
			shown, more = shown[:shownMost], fmt.Sprintf(" … (%d values)", len(shown))
		}
		fmt.Fprintf(out, "counter-example: of %s%s it made %s, not %s\n", strings.Join(shown, " "), more, decimal(x.Got), decimal(x.Want))
	}
	fmt.Fprintf(out, "class %s, %d calls, %d of the replay, verified on random inputs: %v\n", r.Class, r.Calls, r.Checks, r.Verified)
	if r.Fused != nil {
		fmt.Fprintf(out, "adds %s\n", r.Fused)
	}
}
