package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"firstbit/files"
	"firstbit/report"
	"firstbit/trace"
)

type reportFlags struct {
	a, b, cause, out string
	steps            int
	json             bool
}

func reportCommand() *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use:   "report [A B]",
		Short: "Write one page of two traces, of a pair of runs or of a cause: exit 0 the same bits, 1 different",
		Long: "Write one HTML page that needs no network: the verdict, where bits differ by step, layer and Call, the Call at which the runs part with its two orders of\n" +
			"addition, the bits of the first element, how they reach the loss, and the tokens that take another route.\n\n" +
			"Of two traces the runs are run again for what traces do not hold. With --a and --b the pair is run and localised, with --cause that of the catalog.",
		Example: "  firstbit report /tmp/a /tmp/b -o report.html\n" +
			"  firstbit report --a '--preset tiny --recipe fast --schedule 1' --b '--preset tiny --recipe fast --schedule 2' -o report.html\n" +
			"  firstbit report --cause dprob-atomics -o report.html",
		Args: func(_ *cobra.Command, args []string) error { return notEmpty(args, "A", "B") },
	}
	fs := c.Flags()
	fs.StringVarP(&f.out, "output", "o", "", "write the page into this `FILE`")
	fs.StringVar(&f.a, "a", "", "the `FLAGS` of train that make run A")
	fs.StringVar(&f.b, "b", "", "the `FLAGS` of train that make run B")
	fs.StringVar(&f.cause, "cause", "", "the pair of this `CAUSE` of the catalog")
	fs.IntVar(&f.steps, "steps", 0, "of a cause, how many steps from where its runs begin; 0: all")
	fs.BoolVar(&f.json, "json", false, "print one JSON object, the data of the page")
	c.MarkFlagsMutuallyExclusive("json", "output")
	c.MarkFlagsMutuallyExclusive("cause", "a")
	c.MarkFlagsMutuallyExclusive("cause", "b")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(args); err != nil {
			return err
		}
		return interruptible(func(ctx context.Context) error { return f.run(ctx, args, c.OutOrStdout()) }, again)
	}
	return c
}

func (f *reportFlags) check(args []string) error {
	pair := f.a != "" || f.b != ""
	switch {
	case f.out == "" && !f.json:
		return errors.New("-o: must be given: the FILE for the page, or --json")
	case f.steps != 0 && f.cause == "":
		return errors.New("--steps: needs --cause; of other runs it stands in --a and --b")
	case pair && (f.a == "" || f.b == ""):
		return errors.New("--a and --b: must both be given: the flags of train that make a run, such as '--preset tiny --schedule 1'")
	case (pair || f.cause != "") != (len(args) == 0) || len(args) != 0 && len(args) != 2:
		return fmt.Errorf("report: %d traces: must be A and B, or --a and --b, or --cause", len(args))
	}
	return nil
}

func (f *reportFlags) run(ctx context.Context, args []string, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "firstbit-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	page, err := f.page(ctx, args, dir)
	if err != nil {
		return err
	}
	if f.json {
		err = printJSON(out, page)
	} else {
		err = writePage(f.out, page, out)
	}
	if err != nil || page.Diff.Identical {
		return err
	}
	return outcome(exitDifferent)
}

func writePage(path string, page *report.Page, out io.Writer) error {
	html, err := page.HTML()
	if err != nil {
		return err
	}
	if err := files.Write(path, html); err != nil {
		return fmt.Errorf("-o %s: %w", path, files.Reason(err))
	}
	fmt.Fprintln(out, page.Sentence)
	return nil
}

func (f *reportFlags) page(ctx context.Context, args []string, dir string) (*report.Page, error) {
	if len(args) > 0 {
		a, err := trace.Open(args[0])
		if err != nil {
			return nil, err
		}
		b, err := trace.Open(args[1])
		if err != nil {
			return nil, err
		}
		r, err := compare(args, false, "")
		if err != nil {
			return nil, err
		}
		return report.OfTraces(a, b, r, dir)
	}
	pair, err := f.pair(dir)
	if err != nil {
		return nil, err
	}
	for side := range pair.Specs {
		pair.Specs[side].Interrupt = ctx.Done()
	}
	bar := newProgress("report", report.Stages)
	defer bar.done()
	return pair.Page(func(string, *report.Page) { bar.step() })
}

// pair is the runs that flags or a cause make.
func (f *reportFlags) pair(dir string) (*report.Pair, error) {
	if f.cause != "" {
		p, err := report.OfCause(f.cause, f.steps, dir)
		if err != nil {
			return nil, fmt.Errorf("--%w", err)
		}
		return p, nil
	}
	p, err := pairOf(f.a, f.b)
	if err != nil {
		return nil, err
	}
	p.Dir = dir
	return report.OfFlags(p, [2]string{f.a, f.b}), nil
}
