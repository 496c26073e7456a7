package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/lowp"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
	"firstbit/tune"
)

// trainFlags are the flags that make a run.
type trainFlags struct {
	configFlags
	recipe, schedule, export, layout  string
	library                           string
	save, resume                      string
	saveEvery, keep                   int
	plans, faults                     []string
	deterministic, reshard            bool
	trace, level, ranks, window, dump string
	parts                             bool
	profile                           string
	json, wide                        bool
}

func trainCommand() *cobra.Command {
	var f trainFlags
	c := &cobra.Command{
		Use:   "train",
		Short: "Train a model; print its metrics with their bits",
		Example: "  firstbit train --preset tiny --steps 20\n" +
			"  firstbit train --preset small --data book.txt --trace /tmp/a --level op --trace-steps 3-4\n" +
			"  firstbit train --recipe fast --schedule 7 --json\n" +
			"  firstbit train --recipe fast --deterministic --explain\n" +
			"  firstbit train --steps 20 --save /tmp/run --save-every 5 --keep 2\n" +
			"  firstbit train --steps 20 --resume /tmp/run/step000015",
	}
	f.add(c)
	fs := c.Flags()
	explains := fs.Bool("explain", false, "print the rules of --deterministic and what they refuse of the run, which does not begin")
	fs.BoolVar(&f.wide, "wide", false, "print every metric, not loss and grad_norm alone")
	c.MarkFlagsMutuallyExclusive("wide", "json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *explains && !f.deterministic {
			return errors.New("--explain: needs --deterministic")
		}
		f.deterministic = f.deterministic && !*explains
		spec, err := f.spec(fs.Changed)
		if err != nil {
			return err
		}
		if *explains {
			return explain(spec, f.json, c.OutOrStdout())
		}
		stop, err := startProfile(f.profile)
		if err != nil {
			return err
		}
		defer stop()
		return interruptible(func(ctx context.Context) error {
			spec.Interrupt = ctx.Done()
			return f.run(spec, c.OutOrStdout(), c.ErrOrStderr())
		}, f.goOn)
	}
	return c
}

// add gives a command the flags that make a run.
func (f *trainFlags) add(c *cobra.Command) {
	fs := c.Flags()
	f.configFlags.add(c)
	fs.StringVar(&f.layout, "layout", "dp=1", "simulated ranks: `AXIS=N` of axes dp, tp, pp, vpp, cp, ep, etp, such as dp=2,tp=2,pp=2")
	fs.StringVar(&f.schedule, "schedule", "0", "`SEED` of arrival orders, or real for the machine's own races, or real:WAY for threads that share sums: "+strings.Join(kernel.RaceNames(), ", "))
	fs.StringVar(&f.export, "export", "", "write the trained weights into this new `FOLDER`, as Hugging Face's nemotron_h")
	f.stateFlags(c)
	fs.StringVar(&f.recipe, "recipe", tune.Recipes[0], "`RECIPE` of kernels' plans: "+strings.Join(tune.Recipes, ", "))
	fs.StringVar(&f.library, "library", device.DefaultLibrary, "`RELEASE` of the kernel library: "+strings.Join(tune.Releases(), ", "))
	fs.StringArrayVar(&f.plans, "plan", nil, "set items of the plans of matching Calls: `'GLOB PLAN'`, in which words such as step=2 rank=1 rows=64- say where")
	fs.BoolVar(&f.deterministic, "deterministic", false, "refuse to run with what is known not to repeat its bits: see train --deterministic --explain")
	fs.StringArrayVar(&f.faults, "inject", nil, "inject a fault, `'KIND@GLOB KEY=VALUE'`: see list --faults")
	fs.StringVar(&f.trace, "trace", "", "write a trace into this new `FOLDER`")
	fs.StringVar(&f.level, "level", "op", "`LEVEL`, how deep to trace: metrics, semantic, module, op, kernel")
	fs.StringVar(&f.ranks, "trace-ranks", "", "`RANKS` to trace, such as 0,3,8-15")
	fs.StringVar(&f.window, "trace-steps", "", "`STEPS` to trace, such as 4-6")
	fs.StringVar(&f.dump, "dump", "", "`GLOB` of Calls whose bytes the trace keeps")
	fs.BoolVar(&f.parts, "parts", false, "trace digests that add up over the parts of a tensor, for diff --layouts")
	fs.StringVar(&f.profile, "profile", "", "write a `PROFILE` into the current directory: cpu, mem, trace")
	fs.BoolVar(&f.json, "json", false, "print one JSON object")
}

// spec checks every flag before anything runs or is written.
func (f *trainFlags) spec(changed func(string) bool) (run.Spec, error) {
	var s run.Spec
	c, err := f.configuration(changed)
	if err != nil {
		return s, err
	}
	s = run.Spec{Config: c, Recipe: f.recipe, Library: f.library, Plans: f.plans, Faults: f.faults, Checks: run.Checks{Strict: true, Deterministic: f.deterministic},
		Kept: run.Kept{Digest: true, Load: true}, Export: f.export, Resume: f.resume, Reshard: f.reshard, Save: run.Save{Dir: f.save, Every: f.saveEvery, Keep: f.keep}}
	if err := f.needs(changed); err != nil {
		return s, err
	}
	if s.Layout, err = parallel.ParseLayout(f.layout); err != nil {
		return s, fmt.Errorf("--%w", err)
	}
	var ok bool
	if s.Schedule, ok = device.ParseSchedule(f.schedule); !ok {
		return s, fmt.Errorf("--schedule %q: must be a whole number, or real, or real:WAY, of which there are %s", f.schedule, strings.Join(kernel.RaceNames(), ", "))
	}
	if f.trace != "" {
		if s.Trace, err = f.traceOptions(); err != nil {
			return s, err
		}
		if n := s.Layout.World() - 1; !s.Trace.Ranks.Within(0, n) {
			return s, fmt.Errorf("--trace-ranks %q: must be from 0 to %d, the ranks of layout %q", f.ranks, n, s.Layout)
		}
		if !s.Trace.Steps.Within(0, c.Steps) {
			return s, fmt.Errorf("--trace-steps %q: must be from 0 (initialisation) to %d, the steps of the run", f.window, c.Steps)
		}
	} else {
		for _, flag := range []string{"level", "trace-ranks", "trace-steps", "dump", "parts"} {
			if changed(flag) {
				return s, fmt.Errorf("--%s: needs --trace DIR", flag)
			}
		}
	}
	return s, s.Check()
}

func (f *trainFlags) traceOptions() (trace.Options, error) {
	o := trace.Options{Dir: f.trace, Dump: f.dump, Parts: f.parts}
	var err error
	if o.Level, err = trace.ParseLevel(f.level); err != nil {
		return o, fmt.Errorf("--%w", err)
	}
	if o.Ranks, err = trace.ParseSet(f.ranks); err != nil {
		return o, fmt.Errorf("--trace-ranks %w", err)
	}
	if o.Steps, err = trace.ParseSet(f.window); err != nil {
		return o, fmt.Errorf("--trace-steps %w", err)
	}
	return o, nil
}

// metricJSON is a number with its bits.
type metricJSON struct {
	Value *float64 `json:"value"` // null where JSON has no number: NaN and infinities
	Bits  string   `json:"bits"`
}

type stepJSON struct {
	Step    int                   `json:"step"`
	Metrics map[string]metricJSON `json:"metrics"`
	State   string                `json:"state"`
	Experts map[string][]int      `json:"experts"` // tokens of every expert, by router
}

// goOn says how to continue a run that was interrupted.
func (f *trainFlags) goOn(i *run.Interrupted) string {
	switch {
	case i.Saved != "":
		return fmt.Sprintf("%v: continue with --resume %s", i, i.Saved)
	case f.resume != "":
		return fmt.Sprintf("%v: nothing was saved, continue with --resume %s as before", i, f.resume)
	case i.Step == 0:
		return fmt.Sprintf("%v: run it again", i)
	}
	return fmt.Sprintf("%v: nothing was saved, run it again, with --save FOLDER to continue from there", i)
}

func (f *trainFlags) run(s run.Spec, out, warn io.Writer) error {
	bar := newProgress("train", s.Config.Steps)
	s.Begin = func() {
		if !f.json {
			f.printHeader(out, s.Config)
		}
	}
	s.Each = func(r train.Result) error {
		bar.step()
		if !f.json {
			f.printStep(out, r)
		}
		return written(out)
	}
	o, err := run.Run(s)
	bar.done()
	if o == nil {
		return err
	}
	if err == nil {
		warnOf(o, warn)
		err = o.Missed
	}
	if f.json {
		return cmp.Or(err, printTrainJSON(out, s, o, err == nil))
	}
	printEnd(out, o)
	return err
}

func warnOf(o *run.Outcome, warn io.Writer) {
	for _, f := range o.Faults {
		if f.Acted > 0 && f.Changed == 0 {
			fmt.Fprintf(warn, "firstbit: --inject %q: acted %d× and left the same bits\n", f.Spec, f.Acted)
		}
	}
	for _, note := range append([]string{o.Resharded, o.NonFinite}, o.Notes...) {
		if note != "" {
			fmt.Fprintf(warn, "firstbit: %s\n", note)
		}
	}
}

// shown tells whether a metric has a column.
func (f *trainFlags) shown(metric string) bool {
	return f.wide || metric == "loss" || metric == "grad_norm"
}

func (f *trainFlags) printHeader(out io.Writer, c train.Config) {
	const value, bits32, bits64 = 10, 8, 16
	width := value + 1 + bits32
	if c.Precision == lowp.FP64.String() {
		width = value + 1 + bits64
	}
	fmt.Fprintf(out, "%5s", "step")
	for _, name := range c.MetricNames() {
		if f.shown(name) {
			fmt.Fprintf(out, "  %*s", width, name)
		}
	}
	fmt.Fprintln(out)
}

func (f *trainFlags) printStep(out io.Writer, r train.Result) {
	fmt.Fprintf(out, "%5d", r.Step)
	for _, m := range r.Metrics {
		if f.shown(m.Name) {
			fmt.Fprintf(out, "  %10.6f %s", m.Value, m.Bits)
		}
	}
	fmt.Fprintln(out)
}

func printEnd(out io.Writer, o *run.Outcome) {
	last := o.Steps[len(o.Steps)-1]
	for _, l := range o.Load {
		if l.Step == last.Step {
			fmt.Fprintf(out, "%s: the busiest expert has %.2f × the mean of %d tokens\n", l.Layer, l.Imbalance(), sum(l.Tokens)/len(l.Tokens))
		}
	}
	fmt.Fprintf(out, "state %s after step %d\nunigram entropy of the corpus: %.4f nats\n", last.State, last.Step, o.Unigram)
}

func sum(n []int) (s int) {
	for _, v := range n {
		s += v
	}
	return s
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func printTrainJSON(out io.Writer, s run.Spec, o *run.Outcome, ok bool) error {
	steps := make([]stepJSON, len(o.Steps))
	for i, r := range o.Steps {
		steps[i] = stepJSON{r.Step, map[string]metricJSON{}, r.State, map[string][]int{}}
		for _, m := range r.Metrics {
			steps[i].Metrics[m.Name] = metricJSON{finite(m.Value), m.Bits}
		}
	}
	for _, l := range o.Load {
		steps[l.Step-o.Steps[0].Step].Experts[l.Layer] = l.Tokens
	}
	return printJSON(out, map[string]any{"ok": ok, "config": s.Config, "parameters": s.Config.Model.Params(), "steps": steps, "unigram_entropy": o.Unigram,
		"faults": o.Faults})
}
