package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"firstbit/experiments"
	"firstbit/parallel"
	"firstbit/spell"
	"firstbit/train"
)

func reproduceCommand() *cobra.Command {
	var all, asJSON, far bool
	var layout, precision string
	var changed configFlags
	c := &cobra.Command{
		Use:     "reproduce CAUSE…",
		Short:   "Tell a root cause's story: same bits, different bits, found, cured, same bits again",
		Example: "  firstbit reproduce dprob-atomics\n  firstbit reproduce dprob-atomics --layout tp=2,ep=2\n  firstbit reproduce topk-ties --precision nvfp4\n  firstbit reproduce bit-flip --steps 20 --seed 7 --set model.moe.experts=16\n  firstbit reproduce --all --layout each --json",
		Args:    cobra.ArbitraryArgs,
	}
	c.Flags().BoolVar(&all, "all", false, "every cause of the catalog")
	c.Flags().StringVar(&layout, "layout", "", "a `LAYOUT` to show it on, such as tp=2,ep=2; each: every one that list names; turn=N: one of them, another for each N and from one cause to the next (default: the first of those)")
	c.Flags().StringVar(&precision, "precision", "", "a `PRECISION` to show it in; each: every one that list names; turn=N: one of them, another for each N and from one story to the next (default: the cause's own)")
	c.Flags().IntVar(&changed.steps, "steps", 0, "iterations (default: the cause's own)")
	c.Flags().Uint64Var(&changed.seed, "seed", 0, "seed of weights and data (default: the cause's own)")
	c.Flags().StringArrayVar(&changed.set, "set", nil, "set one field of the cause's configuration, `PATH=VALUE`, such as model.width=64")
	c.Flags().BoolVar(&far, "far", false, "runs of at least 50 steps, to see how far it gets")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.MarkFlagsMutuallyExclusive("steps", "far")
	c.RunE = func(c *cobra.Command, args []string) error {
		causes, err := chosen(args, all)
		if err != nil {
			return err
		}
		if causes, err = changed.with(c.Flags().Changed, causes); err != nil {
			return err
		}
		if causes, err = on(layout, causes); err != nil {
			return err
		}
		if causes, err = in(precision, causes); err != nil {
			return err
		}
		if far {
			for i, cause := range causes {
				causes[i] = cause.Far()
			}
		}
		return interruptible(func(ctx context.Context) error { return reproduce(ctx, causes, asJSON, c.OutOrStdout()) }, again)
	}
	return c
}

func chosen(args []string, all bool) ([]*experiments.Cause, error) {
	switch {
	case all && len(args) > 0:
		return nil, fmt.Errorf("reproduce: --all and %q exclude each other: name causes, or --all", args[0])
	case !all && len(args) == 0:
		return nil, fmt.Errorf("reproduce: no cause: name one from firstbit list, or --all")
	}
	causes, err := selected(args)
	if err != nil {
		return nil, fmt.Errorf("reproduce: %w", err)
	}
	return causes, nil
}

// with shows causes on configurations that the flags change.
func (f *configFlags) with(changed func(string) bool, causes []*experiments.Cause) (shown []*experiments.Cause, err error) {
	if !changed("steps") && !changed("seed") && !changed("set") {
		return causes, nil
	}
	for _, c := range causes {
		other, err := c.With(func(config *train.Config) error { return f.change(config, changed) })
		if err != nil {
			return nil, err
		}
		shown = append(shown, other)
	}
	return shown, nil
}

const each = "each"

// several are the layouts or precisions that a flag asks for: those of a cause's own, one of them in turn, or what it names.
func several(value string, own []string, at int, inTurn bool) []string {
	switch {
	case value == each:
		return own
	case inTurn:
		return own[at%len(own):][:1]
	}
	return []string{value}
}

// on shows causes on a layout, or each on every one of its own, or on one of these in turn.
func on(layout string, causes []*experiments.Cause) (shown []*experiments.Cause, err error) {
	if layout == "" {
		return causes, nil
	}
	n, inTurn, err := turn("layout", layout)
	if err != nil {
		return nil, err
	}
	if layout != each && !inTurn {
		if meant := spell.Meant(layout, []string{each}); meant != "" {
			return nil, fmt.Errorf("--layout %q: %smust be a layout, %s or turn=N", layout, meant, each)
		}
		if _, err := parallel.ParseLayout(layout); err != nil {
			return nil, fmt.Errorf("--%w", err)
		}
	}
	for i, c := range causes {
		for _, l := range several(layout, c.Layouts, n+i, inTurn) {
			other, err := c.On(l)
			if err != nil {
				return nil, err
			}
			shown = append(shown, other)
		}
	}
	return shown, nil
}

// in shows causes in a precision, or each in every one of its own, or in one of these in turn.
func in(precision string, causes []*experiments.Cause) (shown []*experiments.Cause, err error) {
	if precision == "" {
		return causes, nil
	}
	n, inTurn, err := turn("precision", precision)
	if err != nil {
		return nil, err
	}
	for i, c := range causes {
		for _, p := range several(precision, c.Precisions, n+i, inTurn) {
			other, err := c.In(p)
			if err != nil {
				return nil, err
			}
			shown = append(shown, other)
		}
	}
	return shown, nil
}

// turn reads turn=N of a flag.
func turn(flag, value string) (n int, ok bool, err error) {
	text, ok := strings.CutPrefix(value, "turn=")
	if !ok {
		return 0, false, nil
	}
	if n, err = strconv.Atoi(text); err != nil || n < 0 || n > math.MaxInt32 {
		return 0, true, fmt.Errorf("--%s %s: %q: must be a number from 0 to %d", flag, value, text, math.MaxInt32)
	}
	return n, true, nil
}

func reproduce(ctx context.Context, causes []*experiments.Cause, asJSON bool, out io.Writer) error {
	ok := true
	results := []*experiments.Result{}
	for i, cause := range causes {
		s := story{out: out, cause: cause}
		if asJSON {
			s.out = io.Discard
		} else if i > 0 {
			fmt.Fprintln(out)
		}
		s.begin()
		bar := newProgress(cause.ID, cause.Stages())
		var err error
		s.r, err = cause.Until(ctx.Done()).Reproduce(bar.say)
		bar.done()
		if err != nil {
			return fmt.Errorf("%s: %w", cause.ID, err)
		}
		s.tell()
		if err := written(out); err != nil {
			return err
		}
		ok = ok && s.r.OK
		results = append(results, s.r)
	}
	if asJSON {
		if err := printJSON(out, map[string]any{"ok": ok, "results": results}); err != nil {
			return err
		}
	}
	if !ok {
		return outcome(exitDifferent)
	}
	return nil
}

// begin says what is about to run.
func (s story) begin() {
	c, config := s.cause, s.cause.Config()
	s.print("%s: %s", c.ID, c.Title)
	s.print("  %s; %d steps of a width-%d model of %s layers in %s", c.Layouts[0], config.Steps, config.Model.Width, config.Model.Pattern, config.Precision)
	s.print("  cause: \t%s", c.Cause)
	s.print("  run A: \t%s", c.Vary()[0])
	s.print("  run B: \t%s", c.Vary()[1])
	s.print("")
}
