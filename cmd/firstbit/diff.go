package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"firstbit/diff"
	"firstbit/trace"
)

func diffCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff A [B]",
		Short: "Compare two traces, or what must be equal within one: exit 0 identical, 1 different, 2 not comparable",
		Example: "  firstbit diff /tmp/a /tmp/b\n  firstbit diff --json /tmp/a /tmp/b\n" +
			"  firstbit diff /tmp/a    the replicas of one run: recomputed activations, weights over data-parallel ranks",
		Args: oneOrTwo,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		r, err := compare(args)
		if err != nil {
			return err
		}
		if asJSON {
			err = printJSON(c.OutOrStdout(), r)
		} else {
			printReport(c.OutOrStdout(), r)
		}
		if err == nil && !r.Identical {
			return outcome(exitDifferent)
		}
		return err
	}
	return c
}

func oneOrTwo(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("%d traces: must be A, or A and B", len(args))
	}
	return nil
}

func compare(dirs []string) (*diff.Report, error) {
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
	r, err := diff.Compare(a, b)
	if err != nil {
		return nil, err
	}
	return r, r.Confirm(dirs[0], dirs[1])
}

func printReport(out io.Writer, r *diff.Report) {
	for _, f := range r.ConfigDifferences {
		note := ""
		if !f.Explains {
			note = "  (changes no bit)"
		}
		fmt.Fprintf(out, "run.json     %s: %s | %s%s\n", f.Field, f.A, f.B, note)
	}
	if r.Identical {
		fmt.Fprintf(out, "identical    %d records over %d steps\n", r.Records, r.Steps)
		return
	}
	f := r.First
	fmt.Fprintf(out, "different    first at %s %s, %s, step %d microbatch %d rank %d\n", f.Kind, f.Path(), f.Phase, f.Iteration, f.Microbatch, f.Rank)
	fmt.Fprintf(out, "verdict      %s\n", f.Verdict)
	for _, e := range r.Evidence {
		fmt.Fprintf(out, "             %s\n", e)
	}
	if r.Class != nil {
		fmt.Fprintf(out, "class        %s\n", *r.Class)
	}
	if r.Pattern != nil {
		fmt.Fprintf(out, "pattern      %s\n", *r.Pattern)
	}
	printBytes(out, "bytes        ", r.Bytes)
	for _, root := range r.Roots {
		rank := ""
		if len(r.Ranks) > 1 {
			rank = fmt.Sprintf(", rank %d", root.Rank)
		}
		fmt.Fprintf(out, "root         %s %s %s, microbatch %d%s\n", root.Phase, root.Kind, root.Path(), root.Microbatch, rank)
	}
	fmt.Fprintf(out, "action       %s\n", r.Action)
}

func printBytes(out io.Writer, indent string, b *diff.Bytes) {
	if b == nil {
		return
	}
	fmt.Fprintf(out, "%s%s[%d]: %s | %s (%s | %s), %s; %d of %d elements differ\n",
		indent, b.Output, b.Element, b.A, b.B, b.ValueA, b.ValueB, b.Distance(), b.Count, b.Of)
}
