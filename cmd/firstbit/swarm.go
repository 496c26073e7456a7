package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"firstbit/files"
	"firstbit/run"
	"firstbit/spell"
	"firstbit/swarm"
)

// swarmFlags say which cases run.
type swarmFlags struct {
	seed                uint64
	n                   int
	shard, kind, replay string
	json                bool
}

func swarmCommand() *cobra.Command {
	var f swarmFlags
	c := &cobra.Command{
		Use:   "swarm",
		Short: "Break small runs at random, and see whether diff names what was broken",
		Long:  "Break small runs at random, and see whether diff names what was broken: exit 0 if it always does, 1 if not.\n\n" + swarmHelp,
		Example: "  firstbit swarm --seed 1 --n 200\n  firstbit swarm --seed 1 --n 4400 --shard 3/16 --json > shard3.json\n" +
			"  firstbit swarm merge shard*.json",
		Args: noArgs,
	}
	fs := c.Flags()
	fs.Uint64Var(&f.seed, "seed", 1, "`SEED` from which all cases follow")
	fs.IntVar(&f.n, "n", 200, "cases of the swarm: a `NUMBER`")
	fs.StringVar(&f.shard, "shard", "0/1", "which part of the swarm to run: `I/N`, I from 0")
	fs.StringVar(&f.kind, "kind", "", "cases of one `KIND` only: "+strings.Join(swarm.Kinds(), ", "))
	fs.StringVar(&f.replay, "replay", "", "run one `CASE`, as the list of misses has it, and say what was said")
	fs.BoolVar(&f.json, "json", false, "print one JSON object")
	for _, other := range []string{"seed", "n", "shard", "kind"} {
		c.MarkFlagsMutuallyExclusive("replay", other)
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.replay != "" {
			return f.again(c.OutOrStdout())
		}
		return interruptible(func(ctx context.Context) error { return f.run(ctx, c.OutOrStdout()) }, again)
	}
	c.AddCommand(mergeCommand(), corruptionCommand())
	return c
}

const swarmHelp = `A case is a model of a few layers in a layout of up to 16 ranks, in any precision and recipe, and one fault of any kind at a Call drawn at random.
Both runs are traced, and diff sees the traces without the list of faults. A fault that leaves the same bits is drawn again.

precision is how much of what is named is right, by Call, rank, step, microbatch and phase; recall how many faults are named so; class how many with the right
verdict and class besides. What is missed is shrunk to the fewest options that miss it, and printed in a line for --replay.
`

// shrinkTries bounds what shrinking one miss runs: half a minute, where a case takes a second.
const shrinkTries = 60

func (f *swarmFlags) options() (o swarm.Options, err error) {
	o = swarm.Options{Seed: f.seed, N: f.n, Kind: f.kind, Localise: swarm.Diff, Shrink: shrinkTries}
	if f.n < 1 || f.n > 1<<24 {
		return o, fmt.Errorf("--n %d: must be from 1 to %d", f.n, 1<<24)
	}
	if names := swarm.Kinds(); f.kind != "" && !slices.Contains(names, f.kind) {
		return o, fmt.Errorf("--kind %q: %s", f.kind, spell.OneOf(f.kind, names))
	}
	i, n, ok := strings.Cut(f.shard, "/")
	if o.Shard, err = strconv.Atoi(i); err == nil {
		o.Shards, err = strconv.Atoi(n)
	}
	if !ok || err != nil || o.Shard < 0 || o.Shard >= o.Shards || o.Shards > f.n {
		return o, fmt.Errorf("--shard %q: must be I/N, with I from 0 to N−1 and N at most the number of cases", f.shard)
	}
	return o, nil
}

func (f *swarmFlags) run(ctx context.Context, out io.Writer) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	lo, hi := o.Cases()
	bar := newProgress("swarm", hi-lo)
	o.Done = bar.step
	r, err := swarm.Run(ctx, o)
	bar.done()
	if err != nil && ctx.Err() != nil {
		return &run.Interrupted{}
	}
	if err != nil {
		return err
	}
	return f.report(out, r)
}

// report prints what a swarm came to.
func (f *swarmFlags) report(out io.Writer, r *swarm.Result) error {
	err := error(nil)
	if f.json {
		err = printJSON(out, r)
	} else {
		printSwarm(out, r)
	}
	if err == nil && len(r.Missed) > 0 {
		err = outcome(exitDifferent)
	}
	return err
}

func printSwarm(out io.Writer, r *swarm.Result) {
	fmt.Fprintf(out, "%-10s %6s %6s %9s %8s\n", "kind", "n", "right", "abstained", "harmless")
	names := slices.Sorted(maps.Keys(r.Kinds))
	for _, name := range swarm.Kinds() {
		if slices.Contains(names, name) {
			k := r.Kinds[name]
			fmt.Fprintf(out, "%-10s %6d %6d %9d %8d\n", name, k.N, k.Right, k.Abstained, k.Harmless)
		}
	}
	for _, m := range r.Missed {
		fmt.Fprintf(out, "missed     %s\n  said     %s\n", m.Kind, m.Said)
		for _, a := range m.Right {
			fmt.Fprintf(out, "  right    %s\n", a)
		}
		fmt.Fprintf(out, "  replay   firstbit swarm --replay '%s'\n", m.Replay)
	}
	fmt.Fprintf(out, "seed %d, %d cases: precision %.4f, recall %.4f, class %.4f, %d false alarms\n", r.Seed, r.N, r.Precision, r.Recall, r.Class, r.FalseAlarms)
	if !r.Complete() {
		fmt.Fprintf(out, "of %d cases: shards are missing\n", r.Of)
	}
}

// again runs one case.
func (f *swarmFlags) again(out io.Writer) error {
	c, err := swarm.Parse(f.replay)
	if err != nil {
		return fmt.Errorf("--replay: %w", err)
	}
	a, err := c.Again(swarm.Diff)
	if err != nil {
		return fmt.Errorf("--replay: %w", err)
	}
	if f.json {
		err = printJSON(out, a)
	} else {
		fmt.Fprintf(out, "%s\nsaid       %s\n", c.Commands(), a.Said)
		for _, right := range a.Right {
			fmt.Fprintf(out, "right      %s\n", right)
		}
		fmt.Fprintf(out, "%s\n", map[bool]string{true: "right", false: "missed"}[a.OK])
	}
	if err == nil && !a.OK {
		err = outcome(exitDifferent)
	}
	return err
}

func mergeCommand() *cobra.Command {
	var f swarmFlags
	c := &cobra.Command{
		Use:     "merge FILE…",
		Short:   "Put the shards of a swarm together, each as swarm --shard --json wrote it",
		Example: "  firstbit swarm merge shard*.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("merge: 0 arguments: must be FILE…")
			}
			return notEmpty(args, "FILE")
		},
		RunE: func(c *cobra.Command, args []string) error {
			r, err := merged(args)
			if err != nil {
				return err
			}
			return f.report(c.OutOrStdout(), r)
		},
	}
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

// maxShard bounds what a shard's results may take.
const maxShard = 64 << 20

func merged(names []string) (*swarm.Result, error) {
	var parts []*swarm.Result
	for _, name := range names {
		text, err := files.Read(name, maxShard)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, files.Reason(err))
		}
		var r swarm.Result
		if err := json.Unmarshal(text, &r); err != nil || len(r.Shards) == 0 {
			return nil, fmt.Errorf("%s: holds no shard: must be what swarm --shard I/N --json prints", name)
		}
		parts = append(parts, &r)
	}
	return swarm.Merge(parts)
}
