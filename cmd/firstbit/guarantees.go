package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"firstbit/parallel"
	"firstbit/run"
	"firstbit/tune"
	"firstbit/verify"
)

// layoutsFlag is the layouts that a guarantee is verified over.
func layoutsFlag(c *cobra.Command, to *[]string, what string, all []string) {
	c.Flags().StringArrayVar(to, "layout", all, what+"; repeatable")
}

func repeats() verification {
	var f configFlags
	var recipe string
	var texts, plans, faults []string
	var schedules int
	var deterministic bool
	var specs []run.Spec
	return verification{
		name: "repeat",
		long: "Two runs from one state are identical: a run and, under another schedule, the same again have the same metrics and the same\n" +
			"state on every rank, after every step, also with plans and faults of one's own, and under more schedules. It ends with the first step that differs.",
		example: "  firstbit verify repeat\n  firstbit verify repeat --preset pico --layout dp=2432 --steps 3\n  firstbit verify repeat --recipe fast\n" +
			"  firstbit verify repeat --layout dp=8 --preset pico --plan 'grads.bucket.* ranks:tree((((0 1) (2 3)) ((4 5) (6 7))))' --schedules 5",
		flags: func(c *cobra.Command) {
			f.add(c)
			c.Flags().StringVar(&recipe, "recipe", tune.Recipes[0], "`RECIPE` of kernels' plans; fast is no repetition, and shows what it looks like")
			layoutsFlag(c, &texts, "`LAYOUT`, simulated ranks; of the default ones, those that can cut the model", verify.RepeatLayouts)
			c.Flags().StringArrayVar(&plans, "plan", nil, "set items of the plans of matching Calls, as train does: `'GLOB PLAN'`; without --layout on one rank")
			c.Flags().StringArrayVar(&faults, "inject", nil, "inject a fault, as train does: `'KIND@GLOB KEY=VALUE'`; without --layout on one rank")
			c.Flags().BoolVar(&deterministic, "deterministic", false, "refuse to run with what is known not to repeat its bits: see train --deterministic --explain")
			c.Flags().IntVar(&schedules, "schedules", 2, "how many schedules must give the same bits")
			c.PreRunE = func(c *cobra.Command, _ []string) error {
				if schedules < 2 {
					return fmt.Errorf("--schedules %d: must be at least 2", schedules)
				}
				if len(plans)+len(faults) > 0 && !c.Flags().Changed("layout") {
					texts = texts[:1]
				}
				config, err := f.configuration(c.Flags().Changed)
				if err != nil {
					return err
				}
				if _, err := config.Corpus(); err != nil {
					return err
				}
				for i, text := range texts {
					s := run.Spec{Config: config, Recipe: recipe, Plans: plans, Faults: faults, Checks: run.Checks{Strict: true, Deterministic: deterministic}}
					if s.Layout, err = parallel.ParseLayout(text); err != nil {
						return fmt.Errorf("--%w", err)
					}
					if err = s.Check(); err != nil && (i == 0 || c.Flags().Changed("layout")) {
						return err
					}
					if err == nil { // of our own, those that can cut the model
						specs = append(specs, s)
					}
				}
				return nil
			}
		},
		steps: func() int { return schedules * specs[0].Config.Steps * len(specs) },
		run: func(ctx context.Context, cell func(verify.Cell) error, step func()) (cells []verify.Cell, held string, err error) {
			for _, s := range specs {
				s.Interrupt = ctx.Done()
				c, err := verify.Repeat(s, schedules, step)
				if err != nil {
					return nil, "", err
				}
				cells = append(cells, c)
				if err := cell(c); err != nil {
					return nil, "", err
				}
			}
			return cells, "two runs from one state are identical after every step, on every rank", nil
		},
	}
}

func resumes() verification {
	return verification{
		name: "resume",
		long: "A run that is stopped continues with the bits of one that is not: stopped after each of its steps, it goes on in a new process, under\n" +
			"another schedule and on another number of processors, and has its metrics and every tensor of its state after every later step.",
		example: "  firstbit verify resume\n  firstbit verify resume --json",
		steps:   verify.ResumeCells,
		run: func(ctx context.Context, cell func(verify.Cell) error, step func()) ([]verify.Cell, string, error) {
			cells, err := verify.Resume(inNewProcess(ctx), nil, counted(cell, step))
			return cells, "a run that is stopped and continues has the bits of one that is not", err
		},
	}
}

func layouts() verification {
	v := overMatrix("layouts", verify.MatrixCells,
		"Every layout gives the bits of one rank on the same global batch, by the recipe canonical: weights, masters, moments, gradients\n"+
			"and losses of every step, under two schedules. With --batch or --precision it is one hybrid on a global batch of that many sequences, over more layouts, in every precision down to nvfp4.",
		"  firstbit verify layouts\n  firstbit verify layouts --layout tp=2,pp=2 --layout cp=2\n  firstbit verify layouts --batch 24 --precision nvfp4\n"+
			"  firstbit verify layouts --batch 24 --layout dp=3 --layout dp=8 --layout dp=2,etp=2",
		func(_ context.Context, over []string, each func(verify.Cell) error) ([]verify.Cell, string, error) {
			cells, one, err := verify.Layouts(tune.Canonical, over, each)
			return cells, "one hash for all layouts: " + one, err
		})
	matrix, b, dealt := v, verify.Batch{}, false
	v.flags = func(c *cobra.Command) {
		matrix.flags(c)
		check := c.PreRunE
		c.Flags().IntVar(&b.Sequences, "batch", 8, "the sequences of a step")
		c.Flags().StringArrayVar(&b.Precisions, "precision", verify.BatchPrecisions, "a `PRECISION`; repeatable")
		c.PreRunE = func(c *cobra.Command, args []string) error {
			if dealt = c.Flags().Changed("batch") || c.Flags().Changed("precision"); !dealt {
				return check(c, args)
			}
			if b.Layouts = verify.BatchLayouts; c.Flags().Changed("layout") {
				over, err := c.Flags().GetStringArray("layout")
				b.Layouts = over
				return errors.Join(err, b.Check())
			}
			b = b.Fitting()
			return b.Check()
		}
	}
	v.steps = func() int {
		if dealt {
			return b.Cells()
		}
		return matrix.steps()
	}
	v.run = func(ctx context.Context, cell func(verify.Cell) error, step func()) ([]verify.Cell, string, error) {
		if dealt {
			return b.Verify(counted(cell, step))
		}
		return matrix.run(ctx, cell, step)
	}
	return v
}

func recipes() verification {
	return verification{
		name: "recipe",
		long: "Deterministic mode accepts what repeats and refuses what parts: every preset with every flag, and one with each two, has one hash under\n" +
			"two schedules where train --deterministic accepts it, and other bits under some where it is refused and runs nevertheless.",
		example: "  firstbit verify recipe\n  firstbit verify recipe --json",
		steps:   verify.RecipeCells,
		run: func(_ context.Context, cell func(verify.Cell) error, step func()) ([]verify.Cell, string, error) {
			cells, err := verify.Recipe(cell, step)
			return cells, "what deterministic mode accepts has one hash, what it refuses parts", err
		},
	}
}

func kernels() verification {
	return verification{
		name: "kernels",
		long: "Each kernel writes the same bytes on fixed inputs, forward and backward: under other schedules, by other numbers of threads, and with\n" +
			"operands that lie elsewhere in memory. The last cell is a kernel that adds by arrival, and must be seen to differ.",
		example: "  firstbit verify kernels\n  firstbit verify kernels --json",
		steps:   verify.KernelCells,
		run: func(_ context.Context, cell func(verify.Cell) error, step func()) ([]verify.Cell, string, error) {
			cells, err := verify.Kernels(cell, step)
			return cells, "every kernel has the same bytes, however it is run; one that adds by arrival has not", err
		},
	}
}

func modules() verification {
	return overMatrix("modules", verify.ModuleCells,
		"Every layout repeats its bits, by the recipe fixed: it has them under two schedules, and one of each pattern in another process; losses and\n"+
			"gradients of the first step are within 1e-5 (fp32), 2e-2 (bf16) or 5e-2 (mxfp8) of one rank's, relative to each tensor's largest value; in fp8 and nvfp4 metrics are within 0.15.",
		"  firstbit verify modules\n  firstbit verify modules --layout dp=8,ep=4 --json",
		func(ctx context.Context, over []string, each func(verify.Cell) error) ([]verify.Cell, string, error) {
			cells, err := verify.Modules(over, inNewProcess(ctx), each)
			return cells, "every layout has the same bits under two schedules, and the numbers of one rank", err
		})
}

// overMatrix verifies a guarantee over the layouts of the matrix, or those that are chosen.
func overMatrix(name string, cells func(layouts int) int, long, example string,
	run func(ctx context.Context, over []string, each func(verify.Cell) error) ([]verify.Cell, string, error)) verification {
	var over []string
	return verification{
		name: name, long: long, example: example,
		flags: func(c *cobra.Command) {
			layoutsFlag(c, &over, "a `LAYOUT` besides one rank", verify.MatrixLayouts)
			c.PreRunE = func(*cobra.Command, []string) error { return verify.CheckLayouts(over) }
		},
		steps: func() int { return cells(len(over)) },
		run: func(ctx context.Context, cell func(verify.Cell) error, step func()) ([]verify.Cell, string, error) {
			return run(ctx, over, counted(cell, step))
		},
	}
}

// counted tells of a cell, and counts it for a step.
func counted(cell func(verify.Cell) error, step func()) func(verify.Cell) error {
	return func(c verify.Cell) error {
		step()
		return cell(c)
	}
}
