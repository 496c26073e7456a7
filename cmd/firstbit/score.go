package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"firstbit/fixtures"
)

func scoreCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "score PACKS ANSWERS",
		Short: "Score a tool's answers over the packs of fixtures: exit 0 all right, 1 not",
		Long: "Hold what a tool that compares traces says of each pack of fixtures against the truth. ANSWERS is a JSON array with an object for each pack of which the tool\n" +
			"names a root: pack, step, rank, microbatch, phase, name (scope and name joined by a dot) and class. A pack that is left out is an abstention.",
		Example: "  firstbit fixtures /tmp/packs\n  python3 docs/comparers/compare.py execution digest /tmp/packs > answers.json\n  firstbit score /tmp/packs answers.json",
		Args:    exactArgs("PACKS", "ANSWERS"),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		truths, err := fixtures.ReadTruths(args[0])
		if err != nil {
			return err
		}
		answers, err := fixtures.ReadAnswers(args[1])
		if err != nil {
			return err
		}
		s, err := fixtures.ScoreOf(truths, answers)
		if err != nil {
			return fmt.Errorf("answers %s: %w", args[1], err)
		}
		if asJSON {
			err = printJSON(c.OutOrStdout(), s)
		} else {
			printScore(c.OutOrStdout(), s)
		}
		if err == nil && !s.Perfect() {
			err = outcome(exitDifferent)
		}
		return err
	}
	return c
}

func printScore(out io.Writer, s *fixtures.Score) {
	width := len("pack")
	for _, e := range s.Entries {
		width = max(width, len(e.Pack))
	}
	fmt.Fprintf(out, "%-*s  step  rank  name  class  says\n", width, "pack")
	mark := func(ok bool) string {
		if ok {
			return "yes"
		}
		return "no"
	}
	for _, e := range s.Entries {
		switch {
		case e.Control && e.Answered:
			fmt.Fprintf(out, "%-*s  false alarm: %s\n", width, e.Pack, e.Answer.Name)
		case e.Control:
			fmt.Fprintf(out, "%-*s  nothing, rightly: the traces do not part\n", width, e.Pack)
		case !e.Answered:
			fmt.Fprintf(out, "%-*s  nothing\n", width, e.Pack)
		default:
			fmt.Fprintf(out, "%-*s  %-4s  %-4s  %-4s  %-5s  %s", width, e.Pack, mark(e.Step), mark(e.Rank), mark(e.Name), mark(e.Class), e.Answer.Name)
			if !e.Name {
				fmt.Fprintf(out, "; it is %s", e.Truth.Path())
			}
			fmt.Fprintln(out)
		}
	}
	fmt.Fprintf(out, "\nprecision %.4g, recall %.4g, class %.4g, %d false alarms, %d abstentions\n", s.Precision, s.Recall, s.Class, s.FalseAlarms, s.Abstentions)
}
