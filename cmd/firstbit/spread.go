package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"firstbit/diff"
	"firstbit/trace"
)

func spreadCommand() *cobra.Command {
	var asJSON, svg bool
	var calls string
	c := &cobra.Command{
		Use:   "spread A B",
		Short: "Draw where two traces differ: by step, part of the model and rank",
		Long: "Draw where two traces differ, a column for each step: a row for each layer and for what stands beside the layers, then one for each rank.\n" +
			"A cell is how many of its Calls wrote other bits: · none, ░ less than a third, ▒ less than two thirds, ▓ less than all, █ all.",
		Example: "  firstbit spread /tmp/a /tmp/b\n  firstbit spread /tmp/a /tmp/b --calls 'layers.1.*'\n  firstbit spread /tmp/a /tmp/b --svg > spread.svg",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("spread: %d traces: must be A and B", len(args))
			}
			return notEmpty(args, "A", "B")
		},
	}
	c.Flags().StringVar(&calls, "calls", "", "a row for each Call that this `GLOB` matches, instead of each layer")
	c.Flags().BoolVar(&svg, "svg", false, "draw as SVG")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.MarkFlagsMutuallyExclusive("json", "svg")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := spreadOf(args[0], args[1])
		if err != nil {
			return err
		}
		heat := s.ByPart()
		if calls != "" {
			if heat = s.ByCall(calls); len(heat.Rows) == 0 {
				return fmt.Errorf("--calls %q: no Call of the traces matches: must be a GLOB on scope.name, such as 'layers.1.*'", calls)
			}
		}
		out := c.OutOrStdout()
		switch {
		case asJSON:
			return printJSON(out, s)
		case svg:
			fmt.Fprint(out, heat.SVG())
		default:
			printSpread(out, s, heat)
		}
		return nil
	}
	return c
}

func spreadOf(a, b string) (*diff.Spread, error) {
	ta, err := trace.Open(a)
	if err != nil {
		return nil, err
	}
	tb, err := trace.Open(b)
	if err != nil {
		return nil, err
	}
	return diff.SpreadOf(ta, tb)
}

func printSpread(out io.Writer, s *diff.Spread, heat diff.Heat) {
	first := s.First()
	if first == nil {
		fmt.Fprintln(out, "nothing differs")
		return
	}
	fmt.Fprintf(out, "first differs   step %d, %s, rank %d\n\n%s", first.Step, first.Name, first.Rank, heat.Text(terminalWidth))
	if ranks := s.ByRank(); len(ranks.Rows) > 1 {
		_, rows, _ := strings.Cut(ranks.Text(terminalWidth), "\n")
		fmt.Fprintf(out, "\n%s", rows)
	}
	fmt.Fprintln(out, "\nof the Calls differ: · none  ░ under a third  ▒ under two thirds  ▓ more  █ all")
}
