package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"firstbit/experiments"
	"firstbit/train"
	"firstbit/tune"
	"firstbit/verify"
)

// verification is a guarantee that can be verified.
type verification struct {
	name   string
	cells  func(layouts int) int
	matrix bool // it runs over layouts that can be chosen
	// run tells of every cell and returns all, and what to print when all hold.
	run func(layouts []string, each func(verify.Cell)) ([]verify.Cell, string, error)
}

func verifications() []verification {
	return []verification{
		{"layouts", verify.MatrixCells, true, func(layouts []string, each func(verify.Cell)) ([]verify.Cell, string, error) {
			cells, one, err := verify.Layouts(tune.Canonical, layouts, each)
			return cells, "one hash for all layouts: " + one, err
		}},
		{"modules", verify.MatrixCells, true, func(layouts []string, each func(verify.Cell)) ([]verify.Cell, string, error) {
			cells, err := verify.Modules(layouts, inNewProcess, each)
			return cells, "every layout has the same bits under two schedules, and the numbers of one rank", err
		}},
		{"resume", func(int) int { return verify.ResumeCells() }, false, func(_ []string, each func(verify.Cell)) ([]verify.Cell, string, error) {
			cells, err := verify.Resume(inNewProcess, nil, each)
			return cells, "a run that is stopped and continues has the bits of one that is not", err
		}},
	}
}

func verifyCommand() *cobra.Command {
	var asJSON bool
	var layouts []string
	c := &cobra.Command{
		Use:   "verify GUARANTEE",
		Short: "Prove a guarantee by running it",
		Long: "layouts: by the recipe canonical, every layout gives the bits of one rank on the same global batch: weights, masters,\n" +
			"moments, gradients and losses of every step, under two schedules.\n\n" +
			"modules: by the recipe fixed, every layout has the same bits under two schedules, and one of each pattern in another process;\n" +
			"losses and gradients of the first step are within 1e-5 (fp32) or 2e-2 (bf16) of one rank's, relative to each tensor's largest value.\n\n" +
			"resume: a run is stopped after each of its steps and continues in a new process, under another schedule and on another number\n" +
			"of processors: metrics and every tensor of the state are those of a run that was not stopped, after every later step.",
		Example: "  firstbit verify layouts --layout tp=2,pp=2 --layout cp=2\n  firstbit verify modules\n  firstbit verify resume --json",
		Args:    exactArgs("GUARANTEE"),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().StringArrayVar(&layouts, "layout", nil, "a layout of layouts or modules, such as tp=2,pp=2, besides one rank; repeatable (default: all of the matrix)")
	c.RunE = func(c *cobra.Command, args []string) error {
		all := verifications()
		i := slices.IndexFunc(all, func(v verification) bool { return v.name == args[0] })
		if i < 0 {
			return fmt.Errorf("verify %q: must be layouts, modules or resume", args[0])
		}
		if len(layouts) > 0 && !all[i].matrix {
			return fmt.Errorf("--layout: verify %s has layouts of its own", args[0])
		}
		if len(layouts) == 0 {
			layouts = verify.MatrixLayouts
		}
		return runVerify(all[i], layouts, asJSON, c.OutOrStdout())
	}
	return c
}

func runVerify(v verification, layouts []string, asJSON bool, out io.Writer) error {
	bar := newProgress("verify "+v.name, v.cells(len(layouts)))
	cells, held, err := v.run(layouts, func(cell verify.Cell) {
		bar.step()
		if !asJSON {
			printCell(out, cell)
		}
	})
	bar.done()
	if err != nil {
		return err
	}
	return report(out, cells, held, asJSON)
}

// report says whether all cells hold: as JSON, or in the line after the table.
func report(out io.Writer, cells []verify.Cell, held string, asJSON bool) error {
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

// inNewProcess runs this program's train.
func inNewProcess(s experiments.Spec, procs int) ([]train.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "firstbit-verify-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	text, err := json.Marshal(s.Config)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, text, 0o666); err != nil {
		return nil, err
	}
	args := []string{"train", "--json", "--config", config, "--layout", s.Layout.String(), "--schedule", s.Schedule.String()}
	if s.Recipe != "" {
		args = append(args, "--recipe", s.Recipe)
	}
	if s.Save.Dir != "" {
		if err := os.MkdirAll(s.Save.Dir, 0o777); err != nil {
			return nil, err
		}
		args = append(args, "--save", s.Save.Dir, "--save-every", fmt.Sprint(s.Save.Every))
	}
	if s.Resume != "" {
		args = append(args, "--resume", s.Resume)
	}
	for _, f := range s.Faults {
		args = append(args, "--inject", f)
	}
	process := exec.Command(self, args...)
	process.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", procs))
	var said strings.Builder
	process.Stderr = &said
	out, err := process.Output()
	if err != nil {
		return nil, fmt.Errorf("a new process: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return stepsOf(out)
}

// stepsOf reads the steps that train printed, with metrics in order of their names.
func stepsOf(out []byte) ([]train.Result, error) {
	var printed struct {
		Steps []stepJSON `json:"steps"`
	}
	if err := json.Unmarshal(out, &printed); err != nil {
		return nil, fmt.Errorf("a new process: %w", err)
	}
	var steps []train.Result
	for _, s := range printed.Steps {
		r := train.Result{Step: s.Step, State: s.State}
		for name, m := range s.Metrics { // sorted below
			r.Metrics = append(r.Metrics, train.Metric{Name: name, Bits: m.Bits})
		}
		slices.SortFunc(r.Metrics, func(a, b train.Metric) int { return strings.Compare(a.Name, b.Name) })
		steps = append(steps, r)
	}
	return steps, nil
}
