package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"firstbit/experiments"
	"firstbit/fixtures"
)

func fixturesCommand() *cobra.Command {
	var ids []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "fixtures DIR",
		Short: "Write pairs of traces with the known answer, to test tools that compare traces",
		Long: "Writes into the new directory DIR, for each cause, the two traces of its faulty pair and truth.json, which says where and how they part.\n" +
			"The same bytes every time. DIR/README.md explains the files.",
		Example: "  firstbit fixtures /tmp/packs\n  firstbit fixtures /tmp/packs --cause dprob-atomics --cause bit-flip",
		Args:    exactArgs("DIR"),
	}
	c.Flags().StringArrayVar(&ids, "cause", nil, "only this `CAUSE`, repeatable (default: every one of firstbit list whose two runs have one layout)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		causes, err := packed(ids)
		if err != nil {
			return fmt.Errorf("--cause: %w", err)
		}
		return interruptible(func(ctx context.Context) error { return makeFixtures(ctx, args[0], causes, asJSON, c.OutOrStdout()) }, again)
	}
	return c
}

func makeFixtures(ctx context.Context, dir string, causes []*experiments.Cause, asJSON bool, out io.Writer) error {
	causes = slices.Clone(causes) // those of the catalog go on
	for i, c := range causes {
		causes[i] = c.Until(ctx.Done())
	}
	bar := newProgress("fixtures", fixtures.Stages*len(causes))
	begun := asJSON
	index, err := fixtures.Make(dir, causes, func(what string) {
		if !begun {
			begun = true
			fmt.Fprintf(out, "fixtures: a pack for each of %d causes\n", len(causes))
		}
		bar.say(what)
	})
	bar.done()
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(out, packsJSON(index))
	}
	printPacks(out, index)
	return nil
}

// packed are the causes of which there are packs: their two traces have one layout, as tools that compare traces ask for.
func packed(ids []string) ([]*experiments.Cause, error) {
	causes, err := selected(ids)
	if err != nil {
		return nil, err
	}
	for _, c := range causes {
		if len(ids) > 0 && c.Across() {
			return nil, fmt.Errorf("cause %q: its two runs have two layouts: must be one whose pair has one", c.ID)
		}
	}
	return slices.DeleteFunc(slices.Clone(causes), (*experiments.Cause).Across), nil
}

// selected finds causes by their IDs, each once; none named: all.
func selected(ids []string) ([]*experiments.Cause, error) {
	if len(ids) == 0 {
		return experiments.Causes(), nil
	}
	var causes []*experiments.Cause
	seen := map[string]bool{}
	for _, id := range ids {
		cause, err := experiments.Find(id)
		switch {
		case err != nil:
			return nil, err
		case seen[id]:
			return nil, fmt.Errorf("cause %q: named twice", id)
		}
		seen[id] = true
		causes = append(causes, cause)
	}
	return causes, nil
}

type packJSON struct {
	Cause string `json:"cause"`
	Files int    `json:"files"`
	Size  int    `json:"size"`
	Truth any    `json:"truth"`
}

func packsJSON(index *fixtures.Index) map[string]any {
	packs := []packJSON{}
	for _, p := range index.Packs {
		packs = append(packs, packJSON{p.Cause, len(p.Files), p.Size(), p.Truth})
	}
	return map[string]any{"ok": true, "packs": packs}
}

func printPacks(out io.Writer, index *fixtures.Index) {
	total := 0
	for _, p := range index.Packs {
		r := p.Truth.Root
		fmt.Fprintf(out, "%-18s %3d files %5d kB  step %d, %s %s %s\n", p.Cause, len(p.Files), p.Size()/1000, r.Iteration, r.Phase, r.Kind, r.Path())
		total += p.Size()
	}
	fmt.Fprintf(out, "%d packs, %.1f MB; the root of each agrees with what the localiser finds\n", len(index.Packs), float64(total)/1e6)
}
