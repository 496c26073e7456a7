package experiments

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/run"
	"firstbit/train"
)

// The triple, for a cause of each kind or, with -matrix, for every one: same bits without it, different with it at the root it claims, same
// bits with the cure; half cures do not suffice. `firstbit reproduce --all --layout each` tells the whole stories; here they are
// short, and no route has to flip by then.
func TestEveryCauseReproduces(t *testing.T) {
	told := map[string]bool{}
	for _, c := range Causes() {
		kind := fmt.Sprint(c.Part, c.Class, c.verdict, c.across, c.silent, c.unmoved, c.seen > 0)
		if !*matrix && told[kind] {
			continue
		}
		told[kind] = true
		t.Run(c.ID, func(t *testing.T) {
			if testing.Short() && c != auxLossAtomics {
				t.Skip("one story is enough for the race detector")
			}
			t.Parallel()
			r, err := short(c).Reproduce(nil)
			require.NoError(t, err)
			require.Empty(t, r.Why)
			require.True(t, r.OK)
			switch {
			case c.across:
				require.Len(t, r.Report.Levels, 2)
			case c.seen == 0:
				require.Len(t, r.Report.Levels, 5)
			}
			require.NotNil(t, r.Faulty)
			require.NotNil(t, r.Healthy, "what people have is a healthy run and a faulty one")
			require.NotNil(t, r.Healthy.Root)
			require.Equal(t, c.silent || c.unmoved || c.seen > 0, r.Healthy.Identical)
			if c.verdict != "memory" && !c.across { // no Call is the root of what memory does
				both := r.Report.A != nil && r.Report.B != nil
				require.True(t, c.Class == "control" || r.Report.Confirmed == (both && r.Fault.Root.Verdict != "artifact"), "of a Call that one run has alone there is nothing to compare")
				require.True(t, len(r.Report.Roots) > 0 || !both || slices.Contains([]string{"restore", "artifact"}, r.Fault.Root.Verdict))
			}
			if c.ID == "microbatch-order" {
				require.Zero(t, r.Routes.Flips, "each microbatch is compared with itself, whenever it came")
			}
			if c.ID == "topk-ties" {
				require.Positive(t, r.Routes.Flips)
			}
			if c.ID == "dprob-atomics" {
				require.Len(t, r.Controls, 2)
			}
		})
	}
}

// A cause names layouts that its model fits, and precisions that it can be trained in.
func TestLayoutsAndPrecisionsFit(t *testing.T) {
	for _, c := range Causes() {
		for _, layout := range c.Layouts {
			_, err := c.On(layout)
			require.NoError(t, err)
		}
		require.Contains(t, c.Precisions, c.config().Precision, c.ID)
		require.Equal(t, len(c.Precisions) == len(everyPrecision), c.Only == "", "%s: says why not in others", c.ID)
		for _, precision := range c.Precisions {
			in, err := c.In(precision)
			require.NoError(t, err)
			require.NoError(t, in.Config().Validate())
		}
		_, err := c.In("fp64")
		require.ErrorContains(t, err, "must be one of")
	}
}

// On a changed configuration a cause's runs have it, and need not reach a route.
func TestWith(t *testing.T) {
	c, err := Find("bit-flip")
	require.NoError(t, err)
	other, err := c.With(func(config *train.Config) error {
		config.Steps, config.Seed = 3, 7
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 3, other.Config().Steps)
	require.Equal(t, 50, c.Config().Steps)
	r, err := other.Reproduce(nil)
	require.NoError(t, err)
	require.True(t, r.OK, r.Why)
	require.Equal(t, uint64(7), r.Config.Seed)
	require.Zero(t, r.Routes.Flips)
}

// short is a cause whose runs end one step after all of them show it.
func short(c *Cause) *Cause {
	s := *c
	s.config = func() train.Config {
		config := c.config()
		config.Steps, config.Batch = 4, 1
		return config
	}
	s.flips = false
	return &s
}

// The harness must be able to say no: a cause whose claim is wrong is not ok, and one whose pairs are not what they must be.
func TestWrongClaimsAreCaught(t *testing.T) {
	c := short(auxLossAtomics)
	c.config = func() train.Config {
		config := train.Tiny()
		config.Steps = 2
		return config
	}
	healthy, err := c.Reproduce(nil)
	require.NoError(t, err)
	require.Empty(t, healthy.Why)
	why := func(change func(c *Cause, r *Result)) []string {
		c, r := *c, *healthy
		r.Controls = slices.Clone(r.Controls)
		change(&c, &r)
		r.judge(&c)
		require.Equal(t, len(r.Why) == 0, r.OK)
		return r.Why
	}
	require.Empty(t, why(func(*Cause, *Result) {}))
	require.Equal(t, []string{"the localiser names layers.2.moe.router.aux_loss, not *.topk",
		"mtp.0.layers.1.moe.router.aux_loss is a root of its own, and not the cause's"}, why(func(c *Cause, _ *Result) { c.Root = "*.topk" }))
	require.Equal(t, []string{"the class is not tie"}, why(func(c *Cause, _ *Result) { c.Class = "tie" }))
	require.Equal(t, []string{"the verdict is origin, not memory"}, why(func(c *Cause, _ *Result) { c.verdict = "memory" }))
	require.Equal(t, []string{"a fault of the source never acts"}, why(func(_ *Cause, r *Result) { r.idle = true }))
	require.Equal(t, []string{"no route flips"}, why(func(c *Cause, _ *Result) { c.flips = true }))
	require.Equal(t, []string{"the cured pair differs"}, why(func(_ *Cause, r *Result) { r.Cure.Identical = false }))
	require.Equal(t, []string{"the pair without the cause differs"}, why(func(_ *Cause, r *Result) { r.Baseline.Identical = false }))
	also := why(func(c *Cause, _ *Result) { c.Root = "layers.2.moe.router.aux_loss" })
	require.Len(t, also, 1)
	require.Contains(t, also[0], "is a root of its own")
	require.Empty(t, why(func(c *Cause, _ *Result) { c.Root, c.also = "layers.2.moe.router.aux_loss", []string{"*.aux_loss"} }))

	all := *c // what is wrong with its pairs, told by running them
	all.healthy, all.cured = c.broken, c.broken
	all.harmless, all.halves = []half{{"still harmless", c.broken}}, []half{{"half", c.cured}}
	r, err := all.Reproduce(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"the pair without the cause differs", "the cured pair differs", "half alone already cures it", "still harmless: the pair differs"}, r.Why)
	none := *c
	none.broken = c.cured
	r, err = none.Reproduce(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"the pair with the cause does not differ"}, r.Why)
	loud, mute := short(scaleRebuild), short(mxDoubleQuant)
	loud.silent, mute.silent = true, false
	r, err = loud.Reproduce(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a metric or the state of a step shows it"}, r.Why)
	r, err = mute.Reproduce(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"the pair with the cause does not differ"}, r.Why)
}

func TestSpecRefusesWhatCannotRun(t *testing.T) {
	_, err := run.Run(run.Spec{Config: auxLossAtomics.Config(), Recipe: "slow"})
	require.ErrorContains(t, err, "must be one of fixed, fused, fast")
	_, _, err = Reveal(Revealing{Kernel: "matmul", Plan: "k:seq"})
	require.ErrorContains(t, err, "must be from 1")
}
