package tax

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

// The interval of the sign test: ranks of the median's 95 % interval from tables of the binomial distribution.
func TestEstimate(t *testing.T) {
	for n, k := range map[int]int{6: 1, 8: 1, 9: 2, 20: 6, 30: 10, 40: 14, 100: 40} { // order reaches nothing
		require.Equal(t, k, rankOf(n), "%d pairs", n)
	}
	e := estimate([]float64{1.02, 1.00, 1.04, 1.01, 1.03, 1.05, 1.06})
	require.InDelta(t, 3, e.Percent, 1e-9)
	require.InDelta(t, 0, e.Lower, 1e-9)
	require.InDelta(t, 6, e.Upper, 1e-9)
	require.InDelta(t, 2.5, estimate([]float64{1.0, 1.01, 1.02, 1.03, 1.04, 1.05}).Percent, 1e-9)
}

// The interval holds the median of a skewed distribution in 95 of 100 cases, and one of a third of the ranks does not.
func TestEstimateCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	covered, narrow := 0, 0
	for range 1000 {
		x := make([]float64, 30)
		for i := range x {
			x[i] = 1 + r.ExpFloat64()
		}
		e, m := estimate(x), 100*math.Ln2
		if e.Lower <= m && m <= e.Upper {
			covered++
		}
		if slices.Sort(x); 100*(x[13]-1) <= m && m <= 100*(x[16]-1) {
			narrow++
		}
	}
	require.Greater(t, covered, 930)
	require.Less(t, narrow, 700, "negative control")
}

func options(layout parallel.Layout) Options {
	o := Options{Spec: run.Spec{Config: train.Tiny(), Layout: layout.Full()}, Threads: 2, Pairs: leastPairs, Runs: 4}
	o.Spec.Config.Batch = 8 // so that there is enough for threads to share
	return o
}

// A step is timed that is slow for a known time, on every layout.
func TestStepsInTurn(t *testing.T) {
	const slow = 5 * time.Millisecond
	for _, l := range []parallel.Layout{{DP: 1}, {DP: 2, TP: 2}} {
		o := options(l)
		o.Spec.Config.Steps = 100
		late := o.Spec
		late.Watch = func(rank int) device.Middleware {
			return func(next device.Runner) device.Runner {
				return func(c *device.Call) {
					if next(c); rank == 0 && c.ID.Path == "optim.embed.w" {
						time.Sleep(slow)
					}
				}
			}
		}
		took, err := o.interleave([]run.Spec{o.Spec, late})
		require.NoError(t, err)
		require.Len(t, took[0], o.Pairs)
		require.GreaterOrEqual(t, slices.Min(took[1]), slow)
	}
}

// What a run cannot do ends the measurement.
func TestStepsThatFail(t *testing.T) {
	o := options(parallel.Layout{})
	o.Spec.Config.Steps = 2 // and more are asked for
	_, err := o.interleave([]run.Spec{o.Spec})
	require.ErrorIs(t, err, errOver)
	o.Spec.Plans = []string{"layers.1.attn.wk k:perm"}
	_, err = Measure(o)
	require.ErrorContains(t, err, "perm")
}

func TestMeasure(t *testing.T) {
	all := ways
	defer func() { ways = all }()
	ways = ways[:2]
	o := options(parallel.Layout{})
	o.Spec.Config.Model.Pattern, o.Spec.Config.Model.MTP.Depths = "*E", 0 // experts, and what else is quick
	var steps int
	o.Step = func() { steps++ }
	r, err := Measure(o)
	require.NoError(t, err)
	require.LessOrEqual(t, r.Lower, r.Percent)
	require.LessOrEqual(t, r.Percent, r.Upper)
	require.LessOrEqual(t, steps, o.Steps())
	names := map[int][]string{}
	for _, f := range r.Forms {
		names[f.Threads] = append(names[f.Threads], f.Name)
		require.Positive(t, f.Millis)
	}
	require.Equal(t, names[1], names[2])
	require.Contains(t, names[2], r.Baseline)
	for _, l := range r.Lines {
		require.Greater(t, len(l.Forms), 1, l.Name)
		require.Zero(t, l.Forms[0].Estimate, "a form beside itself")
		for _, f := range l.Forms {
			require.Positive(t, f.Micros, "%s %s", l.Name, f.Name)
		}
	}
	require.Equal(t, "grouped GEMM with its epilogue", r.Lines[0].Name)
	require.Len(t, r.Lines[0].Forms, 3)
}

// Only what varies between runs is a baseline, on the threads that are asked for.
func TestFastest(t *testing.T) {
	forms := []Form{{Name: "same bits", Threads: 2, Millis: 1, States: 1}, {Name: "one thread", Threads: 1, Millis: 2, States: 9},
		{Name: "slow", Threads: 2, Millis: 4, States: 9}, {Name: "it", Threads: 2, Millis: 3, States: 2}}
	require.Equal(t, "it", fastest(forms, 2).Name)
	require.Nil(t, fastest(forms[:1], 2))
}

// States of the deterministic run are one, and those of every way are several, on one processor too.
func TestWaysVary(t *testing.T) {
	o := options(parallel.Layout{})
	calls, err := run.Calls(o.Spec)
	require.NoError(t, err)
	require.Len(t, waysOf(calls), len(ways))
	n, err := o.states(o.Spec)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for _, threads := range []int{1, 2} {
		for _, w := range ways {
			if w.sums != every {
				continue
			}
			n, err := o.on(threads).states(w.spec(o.Spec, calls))
			require.NoError(t, err)
			require.Greater(t, n, 1, "%s on %d", w.name, threads)
		}
	}
	n, err = o.states(way{race: kernel.Turns, cuts: 8, sums: every &^ epilogue}.spec(o.Spec, calls))
	require.NoError(t, err)
	require.Equal(t, 1, n, "writers in turn have one order")
}

// Memory filled with NaN changes no bit: every Call writes what it owns before anybody reads it.
func TestPoisonChangesNothing(t *testing.T) {
	for _, l := range []parallel.Layout{{DP: 1}, {DP: 2, TP: 2, PP: 2}} {
		s := run.Spec{Config: train.Tiny(), Layout: l.Full(), Kept: run.Kept{Digest: true}}
		s.Config.Steps = 4
		want, err := run.Run(s)
		require.NoError(t, err)
		c := &clock{poisons: true}
		s.Watch = c.watch
		got, err := run.Run(s)
		require.NoError(t, err)
		require.Equal(t, want.Steps, got.Steps)
		require.Positive(t, c.filled.Load())
	}
}

func TestCheck(t *testing.T) {
	for _, o := range []Options{{Threads: 0, Pairs: 30, Runs: 20}, {Threads: 1, Pairs: 5, Runs: 20}, {Threads: 1, Pairs: 30, Runs: 1}} {
		require.ErrorContains(t, o.Check(), "must be from")
	}
}
