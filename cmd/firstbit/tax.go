package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/tax"
	"firstbit/tune"
)

// taxFlags are the flags of tax.
type taxFlags struct {
	configFlags
	layout     string
	plans      []string
	pairs      int
	runs       int
	threads    int
	gpus, days float64
	json       bool
}

// taxResult is the JSON object of tax.
type taxResult struct {
	*tax.Result
	Days *gpuDays `json:"gpu_days"`
}

// gpuDays are what a tax costs a run of so many GPU-days.
type gpuDays struct {
	Median float64 `json:"median"`
	Upper  float64 `json:"upper_95"`
}

func taxCommand() *cobra.Command {
	var f taxFlags
	c := &cobra.Command{
		Use:   "tax",
		Short: "Measure what determinism costs beside the fastest nondeterministic step",
		Long: "Take a deterministic step and a nondeterministic one of the same batch, layout, precision, plans and threads in turn, and print how much\n" +
			"longer the deterministic one takes: the median over the pairs, with its interval of 95 %. The other side is the fastest of several on real\n" +
			"threads, which are tried first, on one thread too: atomic adds, sums of each thread that are added as it ends, work stealing. Of each is\n" +
			"shown that the bits of its runs vary. Then come what single kernels cost by one form and another.\n" +
			"Nothing else should run on the machine meanwhile.",
		Example: "  firstbit tax\n  firstbit tax --preset gpt --threads 2 --pairs 100\n  firstbit tax --gpus 1024 --days 60 --json",
		Args:    noArgs,
	}
	f.configFlags.add(c)
	fs := c.Flags()
	f.preset = "small"
	fs.Lookup("preset").DefValue = f.preset
	fs.StringVar(&f.layout, "layout", "dp=1", "simulated ranks of both sides: `AXIS=N` of axes dp, tp, pp, vpp, cp, ep, etp")
	fs.StringArrayVar(&f.plans, "plan", nil, "set items of the plans of matching Calls on both sides: `'GLOB PLAN'`")
	fs.IntVar(&f.pairs, "pairs", 40, "`PAIRS` of steps")
	fs.IntVar(&f.runs, "runs", 20, "`RUNS` of each nondeterministic form, of which two at least must end in different bits")
	fs.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "`THREADS` of both sides")
	fs.Float64Var(&f.gpus, "gpus", 0, "print the tax of a run on so many `GPUS`")
	fs.Float64Var(&f.days, "days", 0, "that takes so many `DAYS` without it")
	fs.BoolVar(&f.json, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		o, err := f.options(fs.Changed)
		if err != nil {
			return err
		}
		bar := newProgress("tax", o.Steps())
		o.Step = bar.step
		r, err := tax.Measure(o)
		bar.done()
		if err != nil {
			return err
		}
		out := c.OutOrStdout()
		if f.json {
			return printJSON(out, taxResult{r, f.cost(r)})
		}
		return f.print(out, r)
	}
	return c
}

func (f *taxFlags) options(changed func(string) bool) (tax.Options, error) {
	o := tax.Options{Threads: f.threads, Pairs: f.pairs, Runs: f.runs}
	switch {
	case changed("steps"):
		return o, fmt.Errorf("--steps: tax takes the steps that --pairs needs")
	case changed("gpus") != changed("days"):
		return o, fmt.Errorf("--gpus and --days go together: name both")
	case changed("gpus") && !(f.gpus > 0 && f.gpus < math.Inf(1)):
		return o, fmt.Errorf("--gpus %g: must be above 0", f.gpus)
	case changed("days") && !(f.days > 0 && f.days < math.Inf(1)):
		return o, fmt.Errorf("--days %g: must be above 0", f.days)
	}
	config, err := f.configuration(changed)
	if err != nil {
		return o, err
	}
	o.Spec = run.Spec{Config: config, Recipe: tune.Recipes[0], Library: device.DefaultLibrary, Plans: f.plans}
	if o.Spec.Layout, err = parallel.ParseLayout(f.layout); err != nil {
		return o, fmt.Errorf("--%w", err)
	}
	if err := o.Check(); err != nil {
		return o, err
	}
	return o, nil
}

// cost is what a run on so many GPUs pays; nil: none is given.
func (f *taxFlags) cost(r *tax.Result) *gpuDays {
	if f.gpus == 0 {
		return nil
	}
	return &gpuDays{f.gpus * f.days * r.Percent / 100, f.gpus * f.days * r.Upper / 100}
}

func (f *taxFlags) print(out io.Writer, r *tax.Result) error {
	fmt.Fprintf(out, "tax of determinism: %+.2f %%, from %+.2f to %+.2f with 95 %%, over %d pairs on %s\n", r.Percent, r.Lower, r.Upper, r.Pairs, threads(r.Threads))
	fmt.Fprintf(out, "beside the fastest nondeterministic step: %s\n", r.Baseline)
	if d := f.cost(r); d != nil {
		fmt.Fprintf(out, "of %g GPUs for %g days: %.1f GPU-days, at most %.1f with 95 %%\n", f.gpus, f.days, d.Median, d.Upper)
	}
	fmt.Fprintln(out, "\nnondeterministic steps that were tried, beside the deterministic one")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  form\tthreads\tms\tbeside\t95 %\tdifferent states")
	for _, x := range r.Forms {
		fmt.Fprintf(w, "  %s\t%d\t%.2f\t%+.1f %%\t%s\t%d of %d\n", x.Name, x.Threads, x.Millis, x.Percent, interval(x.Estimate), x.States, x.Runs)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nkernels, of all Calls of a step, on %s\n", threads(r.Threads))
	fmt.Fprintln(w, "  what\tform\tµs\tbeside the first\t95 %")
	for _, l := range r.Lines {
		for i, x := range l.Forms {
			if i == 0 {
				fmt.Fprintf(w, "  %s\t%s\t%.0f\t\t\n", l.Name, x.Name, x.Micros)
				continue
			}
			fmt.Fprintf(w, "  \t%s\t%.0f\t%+.1f %%\t%s\n", x.Name, x.Micros, x.Percent, interval(x.Estimate))
		}
	}
	return w.Flush()
}

func interval(e tax.Estimate) string { return fmt.Sprintf("%+.1f to %+.1f", e.Lower, e.Upper) }

func threads(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}
