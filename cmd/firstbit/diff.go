package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"firstbit/diff"
	"firstbit/trace"
)

func diffCommand() *cobra.Command {
	var asJSON, layouts bool
	var within string
	c := &cobra.Command{
		Use:   "diff A [B]",
		Long:  "Compare two traces, or what must be equal within one: exit 0 identical, 1 different, 2 not comparable.\n\n" + stepsHelp + layoutsHelp,
		Short: "Compare two traces, or what must be equal within one: exit 0 identical, 1 different, 2 not comparable",
		Example: "  firstbit diff /tmp/a /tmp/b\n  firstbit diff --json /tmp/a /tmp/b\n" +
			"  firstbit diff /tmp/a    the replicas of one run: recomputed activations, whatever ranks have copies of\n" +
			"  firstbit diff --layouts /tmp/one /tmp/tp2    what runs of different layouts share\n" +
			"  firstbit diff --layouts /tmp/one /tmp/tp2 --within rtol=1e-3",
		Args: oneOrTwo,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&layouts, "layouts", false, "compare two traces of different layouts, by the records that both have whole")
	c.Flags().StringVar(&within, "within", "", "with --layouts, find the first tensor further apart than `ulps=N` or rtol=X, by dumped bytes")
	c.RunE = func(c *cobra.Command, args []string) error {
		r, err := compare(args, layouts, within)
		if err != nil {
			return err
		}
		if asJSON {
			err = printJSON(c.OutOrStdout(), r)
		} else {
			printReport(c.OutOrStdout(), r)
		}
		switch {
		case err != nil || r.Identical:
			return err
		case r.Unknown():
			return fmt.Errorf("%s; up to there nothing differs, the rest is unknown", *r.Truncated)
		}
		return outcome(exitDifferent)
	}
	return c
}

func oneOrTwo(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("diff: %d traces: must be A, or A and B", len(args))
	}
	return notEmpty(args, "A", "B")
}

const stepsHelp = `Traces of other windows or numbers of steps are compared over the steps that both hold. A trace that was cut short is compared up to the last
step that all of its ranks have whole; if nothing differs up to there, the rest is unknown, which is exit 2.

`

const layoutsHelp = `Traces of different layouts are not comparable, unless --layouts asks for what they share: records with one name, layer and expert
of one iteration and microbatch that both traces have whole, on whatever rank. Whole is what has the same shapes in both, and the
same bits on all ranks of a trace that have it: parts of tensors, and parts of sums, are left out, and so are messages between
ranks, collectives, and the fingerprint of all states. Microbatches are matched by their samples: number m of data-parallel rank d is d·micro+m
of the step. If batch, seq or the number of microbatches of a step differ, a number has other samples, and only what lies outside
of microbatches is compared: metrics, states, the optimizer. If ranks have other numbers of microbatches, sums that are carried
from one to the next are left out. It says how many records were shared. Under the canonical recipe they are identical.

Of traces made with train --parts, parts of tensors are compared too, those of all ranks together, and over whole steps where microbatches have
other samples: the first Call whose parts differ is named. By other recipes layouts round otherwise: --within finds the first further apart
than that. It reads bytes, so both runs need --dump '*'.`

func compare(dirs []string, layouts bool, within string) (*diff.Report, error) {
	if layouts && len(dirs) < 2 {
		return nil, fmt.Errorf("--layouts: one trace: must be two")
	}
	var apart *diff.Within
	if within != "" {
		var err error
		if !layouts {
			return nil, fmt.Errorf("--within %s: needs --layouts", within)
		}
		if apart, err = diff.ParseWithin(within); err != nil {
			return nil, fmt.Errorf("--within %w", err)
		}
	}
	a, err := trace.Open(dirs[0])
	if err != nil {
		return nil, err
	}
	if len(dirs) == 1 {
		return diff.Replicas(a)
	}
	b, err := trace.Open(dirs[1])
	if err != nil {
		return nil, err
	}
	do := diff.Compare
	if layouts {
		do = func(a, b *trace.Trace) (*diff.Report, error) { return diff.Layouts(a, b, apart) }
	}
	r, err := do(a, b)
	if err != nil {
		return nil, err
	}
	r.Confirm(dirs[0], dirs[1])
	return r, nil
}

func printReport(out io.Writer, r *diff.Report) {
	for _, f := range r.ConfigDifferences {
		note := ""
		if !f.Explains {
			note = "  (changes no bit)"
		}
		tell(out, "run.json     \t%s: %s | %s%s", f.Field, f.A, f.B, note)
	}
	if s := r.Shared; s != nil && (s.Steps < s.Of || s.Ranks < s.OfRanks) {
		tell(out, "shared       \t%d of %d steps, %d of %d ranks", s.Steps, s.Of, s.Ranks, s.OfRanks)
	}
	if r.Layouts {
		tell(out, "layouts      \t%d records shared, %d left out", r.Records, r.LeftOut)
	}
	if r.Within != nil {
		tell(out, "within       \t%s", *r.Within)
	}
	if r.Truncated != nil {
		tell(out, "truncated    \t%s", *r.Truncated)
	}
	if r.NotRecorded != nil {
		tell(out, "not recorded \t%s", *r.NotRecorded)
	}
	if r.Unknown() {
		tell(out, "unknown      \t%d records over %d steps are equal", r.Records, r.Steps)
		return
	}
	if r.Identical {
		tell(out, "identical    \t%d records over %d steps", r.Records, r.Steps)
		return
	}
	f := r.First
	tell(out, "different    \tfirst at %s %s, %s, step %d microbatch %d rank %d", f.Kind, f.Path(), f.Phase, f.Iteration, f.Microbatch, f.Rank)
	tell(out, "verdict      \t%s", f.Verdict)
	for _, e := range r.Evidence {
		tell(out, "             \t%s", e)
	}
	if r.Class != nil {
		tell(out, "class        \t%s", *r.Class)
	}
	if r.Pattern != nil {
		tell(out, "pattern      \t%s", *r.Pattern)
	}
	printBytes(out, "bytes        ", r.Bytes)
	for _, root := range r.Roots {
		rank := ""
		if len(r.Ranks) > 1 {
			rank = fmt.Sprintf(", rank %d", root.Rank)
		}
		tell(out, "root         \t%s %s %s, microbatch %d%s", root.Phase, root.Kind, root.Path(), root.Microbatch, rank)
	}
	tell(out, "action       \t%s", r.Action)
}

func printBytes(out io.Writer, indent string, b *diff.Bytes) {
	if b == nil {
		return
	}
	tell(out, "%s\t%s[%d]: %s | %s (%s | %s), %s; %d of %d elements differ",
		indent, b.Output, b.Element, mark(b.A, b.B), mark(b.B, b.A), b.ValueA, b.ValueB, b.Distance(), b.Count, b.Of)
}
