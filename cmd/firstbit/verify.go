package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"firstbit/tune"
	"firstbit/verify"
)

// verifications are what can be verified.
var verifications = []string{"layouts"}

func verifyCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify GUARANTEE",
		Short: "Prove a guarantee by running it",
		Long: "layouts: by the recipe canonical, every number of data-parallel ranks gives the bits of one rank on the same global batch:\n" +
			"weights, masters, moments, gradients and losses of every step, under two schedules.",
		Example: "  firstbit verify layouts\n  firstbit verify layouts --json",
		Args:    exactArgs("GUARANTEE"),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		if args[0] != verifications[0] {
			return fmt.Errorf("verify %q: must be %s", args[0], verifications[0])
		}
		out := c.OutOrStdout()
		bar := newProgress("verify "+args[0], verify.LayoutCells())
		cells, one, err := verify.Layouts(tune.Canonical, func(cell verify.Cell) {
			bar.step()
			if !asJSON {
				printCell(out, cell)
			}
		})
		bar.done()
		if err != nil {
			return err
		}
		return report(out, cells, one, asJSON)
	}
	return c
}

// report says whether all cells hold: as JSON, or in the line after the table.
func report(out io.Writer, cells []verify.Cell, one string, asJSON bool) error {
	ok := true
	for _, cell := range cells {
		ok = ok && cell.OK
	}
	var err error
	switch {
	case asJSON:
		err = printJSON(out, map[string]any{"ok": ok, "cells": cells})
	case ok:
		_, err = fmt.Fprintf(out, "one hash for all layouts: %s\n", one)
	}
	if err == nil && !ok {
		err = outcome(exitDifferent)
	}
	return err
}

func printCell(out io.Writer, c verify.Cell) {
	if c.OK {
		fmt.Fprintf(out, "ok   %-16s %s\n", c.Name, c.Hash)
		return
	}
	fmt.Fprintf(out, "not  %-16s %s %s\n", c.Name, c.Hash, *c.Why)
}
