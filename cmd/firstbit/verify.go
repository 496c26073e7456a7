package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"firstbit/run"
	"firstbit/spell"
	"firstbit/verify"
)

// verification is a guarantee that can be verified.
type verification struct {
	name, long, example string
	flags               func(c *cobra.Command)
	steps               func() int // that the progress bar counts
	// run tells of every cell and of every step, and returns what to print when all hold.
	run func(ctx context.Context, cell func(verify.Cell) error, step func()) (cells []verify.Cell, held string, err error)
}

func verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "verify GUARANTEE",
		Short:   "Prove a guarantee by running it: repeat, resume, layouts, recipe, kernels, modules",
		Example: "  firstbit verify repeat --preset pico --layout dp=64 --steps 20\n  firstbit verify layouts --layout tp=2,pp=2\n  firstbit verify resume --json",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() }, // of what has no name: see Args
	}
	var names []string
	for _, v := range []verification{repeats(), resumes(), layouts(), recipes(), kernels(), modules()} {
		c.AddCommand(v.command())
		names = append(names, v.name)
	}
	c.Args = func(_ *cobra.Command, args []string) error {
		given := ""
		if len(args) > 0 {
			given = args[0]
		}
		return fmt.Errorf("verify %q: %s", given, spell.OneOf(given, names))
	}
	return c
}

// short is the beginning of the guarantee's description.
func (v verification) short() string {
	long := strings.ReplaceAll(v.long, "\n", " ")
	return long[:strings.IndexAny(long, ":;,")]
}

func (v verification) command() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: v.name, Short: v.short(), Long: v.long, Example: v.example, Args: noArgs}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	if v.flags != nil {
		v.flags(c)
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return interruptible(func(ctx context.Context) error { return v.verify(ctx, asJSON, c.OutOrStdout()) }, again)
	}
	return c
}

func (v verification) verify(ctx context.Context, asJSON bool, out io.Writer) error {
	if !asJSON {
		fmt.Fprintf(out, "verify %s: %s\n", v.name, v.short())
	}
	bar := newProgress("verify "+v.name, v.steps())
	cells, held, err := v.run(ctx, func(cell verify.Cell) error {
		if !asJSON {
			printCell(out, cell)
		}
		if err := written(out); err != nil || ctx.Err() == nil {
			return err
		}
		return &run.Interrupted{}
	}, bar.step)
	bar.done()
	if err != nil {
		return err
	}
	return conclude(out, cells, held, asJSON)
}

// conclude says whether all cells hold: as JSON, or in the line after the table.
func conclude(out io.Writer, cells []verify.Cell, held string, asJSON bool) error {
	var err error
	ok := !slices.ContainsFunc(cells, func(c verify.Cell) bool { return !c.OK })
	if asJSON {
		err = printJSON(out, map[string]any{"ok": ok, "cells": cells})
	} else if ok {
		_, err = fmt.Fprintln(out, held)
	}
	if err == nil && !ok {
		err = outcome(exitDifferent)
	}
	return err
}

func printCell(out io.Writer, c verify.Cell) {
	if c.OK {
		fmt.Fprintf(out, "ok   %-32s %s\n", c.Name, c.Hash)
		return
	}
	fmt.Fprintf(out, "not  %-32s %s %s\n", c.Name, c.Hash, *c.Why)
}
