package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"firstbit/device"
	"firstbit/experiments"
	"firstbit/reduce"
	"firstbit/run"
)

// revealing are the flags of reveal.
type revealing struct {
	trainFlags
	kernel  experiments.Revealing
	at      run.Revealing
	program string
	wait    int // seconds
	full    bool
}

func revealCommand() *cobra.Command {
	var r revealing
	c := &cobra.Command{
		Use:   "reveal [KERNEL | CALL]",
		Short: "Recover the order of addition of a kernel, a Call, a collective or a program from its outputs alone",
		Long: "Runs the kernel through the door on inputs made of masks and units, recovers the tree by which it adds (FPRev), and replays it on random\n" +
			"inputs. What gives other bits is tried as what else it may be: another format of partial sums, a fused, exact or compensated sum, an order that\n" +
			"varies from call to call, or no sum. Of a collective, -n is the number of ranks.\n" +
			"Of a CALL of a run, a GLOB, it asks every sum that its plan names, as the flags of train make the run: what list --calls lists. Which elements\n" +
			"of which operand are the leaves is found by trying.\n" +
			"--exec asks a program instead: it reads vectors, one a line, numbers in decimal that round-trip, and prints one sum a line.\n" +
			"Kernels: " + strings.Join(experiments.RevealNames(), ", "),
		Example: "  firstbit reveal matmul -n 16\n  firstbit reveal matmul -n 16 --plan 'k:blocked(4)/bf16'\n  firstbit reveal all_reduce -n 8 --plan 'ranks:ring; channels=2' --elements 64 --element 5\n" +
			"  firstbit reveal layers.1.attn.attention --preset pico --sum keys\n  firstbit reveal '*.ssm.*' --preset pico --phase bwd --json\n" +
			"  firstbit reveal -n 64 --exec 'python3 scripts/reveal/numpy_sum.py'",
		Args: cobra.MaximumNArgs(1),
	}
	r.add(c)
	c.RunE = func(c *cobra.Command, args []string) error { return r.reveal(c.OutOrStdout(), c.Flags(), args) }
	return c
}

// add gives the command its flags.
func (r *revealing) add(c *cobra.Command) {
	r.trainFlags.add(c)
	fs := c.Flags()
	fs.Lookup("plan").Usage = "of a KERNEL: items of its plan to set; of a CALL: `'GLOB PLAN'`, as in train"
	fs.IntVarP(&r.kernel.N, "n", "n", 16, "of a KERNEL: leaves of the sum")
	fs.StringVar(&r.at.Sum, "sum", "", "of a CALL: the `NAME` of a sum of its plan; every one unless given")
	fs.IntVar(&r.at.Step, "step", 1, "of a CALL: the `STEP`")
	fs.IntVar(&r.at.Micro, "micro", 0, "of a CALL: the `MICROBATCH`")
	fs.StringVar(&r.at.Phase, "phase", "", "of a CALL: the `PHASE`, fwd, rec, bwd or opt; every one unless given")
	fs.IntVar(&r.at.Rank, "rank", 0, "of a CALL: a `RANK` that has it")
	fs.IntVar(&r.kernel.Elements, "elements", 1, "of a collective: elements of its message")
	fs.IntVar(&r.kernel.Element, "element", 0, "of a collective: which `ELEMENT` is asked about")
	fs.IntVar(&r.kernel.Node, "node", 4, "of a collective: ranks of a node")
	fs.StringVar(&r.program, "exec", "", "ask the program that `COMMAND` starts, and that stays alive")
	fs.BoolVar(&r.full, "full", false, fullHelp)
	fs.IntVar(&r.wait, "timeout", 30, "`SECONDS` that the program may take for an answer")
}

func (r *revealing) reveal(out io.Writer, fs *pflag.FlagSet, args []string) error {
	if fs.Changed("timeout") && r.program == "" {
		return errors.New("--timeout: needs --exec COMMAND")
	}
	if len(args) > 0 && r.program == "" && !slices.Contains(experiments.RevealNames(), args[0]) {
		return r.calls(out, fs, args[0])
	}
	for _, name := range []string{"elements", "element", "node"} {
		if fs.Changed(name) && (len(args) == 0 || !experiments.IsCollective(args[0])) {
			return fmt.Errorf("--%s: is for collectives", name)
		}
	}
	if err := ofCalls(fs); err != nil {
		return err
	}
	found, what, err := r.box(args)
	switch {
	case err != nil:
		return err
	case r.json:
		return printJSON(out, revealedJSON(found))
	}
	printRevealed(out, what, r.kernel.N, found, r.full)
	return nil
}

// box reveals a program, or a kernel by itself.
func (r *revealing) box(args []string) (found reduce.Revealed, what string, err error) {
	switch {
	case r.program != "":
		if len(args) > 0 || len(r.plans) > 0 || r.wait < 1 {
			return found, "", errors.New("--exec: KERNEL and --plan exclude it, and --timeout must be at least 1")
		}
		found, err = revealProgram(r.program, r.kernel.N, time.Duration(r.wait)*time.Second)
		return found, r.program, err
	case len(args) == 0:
		return found, "", errors.New("reveal: KERNEL, CALL or --exec must be given")
	}
	var ok bool
	if r.kernel.Schedule, ok = device.ParseSchedule(r.schedule); !ok {
		return found, "", fmt.Errorf("--schedule %q: must be a whole number or real", r.schedule)
	}
	r.kernel.Kernel, r.kernel.Plan = args[0], strings.Join(r.plans, "; ")
	found, plan, err := experiments.Reveal(r.kernel)
	return found, fmt.Sprintf("%s by plan %q", args[0], plan), err
}

// ofCalls refuses flags that make a run, where none is run.
func ofCalls(fs *pflag.FlagSet) (err error) {
	fs.Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"n", "plan", "schedule", "json", "elements", "element", "node", "exec", "timeout", "full"}, f.Name) && err == nil {
			err = fmt.Errorf("--%s: is for a CALL of a run", f.Name)
		}
	})
	return err
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
