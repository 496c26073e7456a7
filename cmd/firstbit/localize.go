package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/mattn/go-shellwords"
	"github.com/spf13/cobra"

	"firstbit/diff"
	"firstbit/run"
	"firstbit/trace"
)

func localizeCommand() *cobra.Command {
	var a, b, scale, watch, bisect string
	var asJSON bool
	c := &cobra.Command{
		Use:   "localize",
		Short: "Run a pair, coarse to fine, and name the Call at which it parts: exit 0 the same bits, 1 different",
		Long: "Run a pair and name the Call at which it parts. Metrics of both whole runs give the step; from the checkpoint before it that step is traced\n" +
			"again at every deeper level, on the ranks, then in the scope, that are still suspected; the bytes of the Call found are dumped and compared.\n\n" +
			"--scale runs the pair at several data-parallel sizes and localises at the smallest that parts. --watch has run B train beside the metrics of a\n" +
			"recorded run, which is run A, and localises when it parts from it. --bisect library has run A's flags with the releases from its own to run\n" +
			"B's, halves them until one moved a bit, and localises between that and the one before.",
		Example: "  firstbit localize --a '--preset tiny --schedule 1 --recipe fast' --b '--preset tiny --schedule 2 --recipe fast'\n" +
			"  firstbit localize --a '--preset pico --plan \"grads.* ranks:arrival\" --schedule 1' --b '--preset pico --plan \"grads.* ranks:arrival\" --schedule 2' --scale 2,4,8\n" +
			"  firstbit localize --a '--preset pico' --b '--preset pico --library sim-13.3' --bisect library\n" +
			"  firstbit localize --watch /tmp/recorded --b '--preset tiny --steps 100'",
		Args: noArgs,
	}
	c.Flags().StringVar(&a, "a", "", "the `FLAGS` of train that make run A")
	c.Flags().StringVar(&b, "b", "", "the `FLAGS` of train that make run B")
	c.Flags().StringVar(&scale, "scale", "", "data-parallel `SIZES` to run the pair at, smallest first, such as 2,4,8,16")
	c.Flags().StringVar(&watch, "watch", "", "the trace `FOLDER` of run A, to compare with as run B trains")
	c.Flags().StringVar(&bisect, "bisect", "", "`WHAT` to halve between the runs until one step of it moved a bit: "+bisectLibrary)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		sizes, err := sizesOf(scale)
		if err != nil {
			return err
		}
		for _, flag := range []string{"a", "b"} {
			if !c.Flags().Changed(flag) && (flag == "b" || watch == "") {
				return fmt.Errorf("--%s: must be given: the flags of train that make a run, such as '--preset tiny --schedule 1'", flag)
			}
		}
		if bisect != "" && (bisect != bisectLibrary || scale != "" || watch != "") {
			return fmt.Errorf("--bisect %q: must be %s, without --scale and --watch", bisect, bisectLibrary)
		}
		var p *run.Pair
		if watch == "" {
			p, err = pairOf(a, b)
		} else if a != "" || scale != "" {
			return errors.New("--watch: run A is the recorded one: --a and --scale exclude it")
		} else {
			p, err = watched(watch, b)
		}
		if err != nil {
			return err
		}
		return interruptible(func(ctx context.Context) error {
			for side := range p.Specs {
				p.Specs[side].Interrupt = ctx.Done()
			}
			return localize(p, sizes, bisect != "", asJSON, c.OutOrStdout())
		}, again)
	}
	return c
}

// bisectLibrary is what --bisect may be of.
const bisectLibrary = "library"

// pairOf is the pair of runs that flags of train make.
func pairOf(flags ...string) (*run.Pair, error) {
	p := &run.Pair{}
	for side, text := range flags {
		spec, err := runOf(text)
		if err != nil {
			return nil, fmt.Errorf("--%c: %w", 'a'+side, err)
		}
		p.Specs[side] = spec
	}
	return p, nil
}

// watched trains run B beside a recorded run. The pair ends at the step at which they part; if none does, with the last.
func watched(dir, flags string) (*run.Pair, error) {
	t, err := trace.Open(dir)
	if err != nil {
		return nil, err
	}
	b, err := runOf(flags)
	if err != nil {
		return nil, fmt.Errorf("--b: %w", err)
	}
	a, err := run.Recorded(t)
	if err != nil {
		return nil, err
	}
	step, err := run.Watch(b, t)
	if err != nil {
		return nil, err
	}
	a.Until, b.Until = step, step
	return &run.Pair{Specs: [2]run.Spec{a, b}}, nil
}

// ownOutputs are flags of train about what it writes.
var ownOutputs = []string{"trace", "level", "trace-ranks", "trace-steps", "dump", "save", "save-every", "keep", "export", "profile", "json"}

// runOf is the run that flags of train make. What it writes is the localiser's to say.
func runOf(flags string) (run.Spec, error) {
	var f trainFlags
	words, err := shellwords.Parse(flags)
	if err != nil {
		return run.Spec{}, fmt.Errorf("%q: %w: must be flags of train, quoted as in a shell", flags, err)
	}
	c := &cobra.Command{Use: "train", SilenceErrors: true, SilenceUsage: true}
	f.add(c)
	if err := c.ParseFlags(words); err != nil {
		return run.Spec{}, badFlag(c, err)
	}
	if rest := c.Flags().Args(); len(rest) > 0 {
		return run.Spec{}, fmt.Errorf("%q: must be flags of train", rest[0])
	}
	for _, name := range ownOutputs {
		if c.Flags().Changed(name) {
			return run.Spec{}, fmt.Errorf("--%s: localize says what its runs write", name)
		}
	}
	return f.spec(c.Flags().Changed)
}

func sizesOf(text string) (sizes []int, err error) {
	if text == "" {
		return nil, nil
	}
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || len(sizes) > 0 && n <= sizes[len(sizes)-1] {
			return nil, fmt.Errorf("--scale %q: must be numbers of ranks, each larger than the one before, such as 2,4,8", text)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// scaled is a size at which a pair ran.
type scaled struct {
	DP        int  `json:"dp"`
	Identical bool `json:"identical"`
}

type localized struct {
	*diff.Report
	Scale  []scaled       `json:"scale,omitempty"`
	Bisect []run.Released `json:"bisect,omitempty"`
}

func localize(p *run.Pair, sizes []int, bisect, asJSON bool, out io.Writer) (err error) {
	if p.Dir, err = os.MkdirTemp("", "firstbit-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.Dir)) }()
	var l localized
	bar := newProgress("localize", len(sizes)+int(trace.Kernel))
	defer bar.done()
	for _, n := range sizes {
		for side := range p.Specs {
			p.Specs[side].Layout.DP = n
			if err := p.Specs[side].Check(); err != nil {
				return fmt.Errorf("--scale %d: %w", n, err)
			}
		}
		same, err := p.Same()
		if err != nil {
			return err
		}
		bar.step()
		l.Scale = append(l.Scale, scaled{n, same})
		if !same {
			break
		}
	}
	if bisect {
		if l.Bisect, err = p.BisectLibrary(); err != nil {
			return fmt.Errorf("--bisect %s: %w", bisectLibrary, err)
		}
	}
	l.Report, err = diff.Localize(p.Trace, func(trace.Level) { bar.step() })
	if err != nil {
		return err
	}
	bar.done()
	if asJSON {
		err = printJSON(out, l)
	} else {
		l.print(out)
	}
	if err != nil || l.Identical {
		return err
	}
	return outcome(exitDifferent)
}

func (l *localized) print(out io.Writer) {
	for _, s := range l.Scale {
		fmt.Fprintf(out, "scale        dp=%d: %s\n", s.DP, sameOrNot(s.Identical))
	}
	for _, s := range l.Bisect {
		fmt.Fprintf(out, "library      %s: %s\n", s.Library, sameOrNot(s.Identical))
	}
	for _, s := range l.Levels {
		first := "the same"
		if s.First != nil {
			first = fmt.Sprintf("first at %s %s, %s, step %d microbatch %d rank %d", s.First.Kind, s.First.Path(), s.First.Phase, s.First.Iteration, s.First.Microbatch, s.First.Rank)
		}
		tell(out, "%-12s \t%d records, %d ruled out; %s", s.Level, s.Compared, s.RuledOut, first)
	}
	printReport(out, l.Report)
}
