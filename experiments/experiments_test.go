package experiments

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/train"
)

// The triple, for every cause: same bits without it, different with it at the root it claims, same
// bits with the cure; half cures do not suffice.
func TestEveryCauseReproduces(t *testing.T) {
	for _, c := range Causes() {
		t.Run(c.ID, func(t *testing.T) {
			if testing.Short() && c != auxLossAtomics {
				t.Skip("one story is enough for the race detector")
			}
			t.Parallel()
			r, err := c.Reproduce(nil)
			require.NoError(t, err)
			require.Empty(t, r.Why)
			require.True(t, r.OK)
			require.Len(t, r.Report.Levels, 5)
			if c.verdict != "memory" { // no Call is the root of what memory does
				require.True(t, r.Report.Confirmed)
				require.True(t, len(r.Report.Roots) > 0 || r.Fault.Root.Verdict == "restore")
			}
			if c.ID == "microbatch-order" {
				require.Zero(t, r.Routes.Flips, "each microbatch is compared with itself, whenever it came")
			}
			if c.ID == "dprob-atomics" {
				require.Positive(t, r.Routes.Flips)
				require.Len(t, r.Controls, 2)
			}
		})
	}
}

// The harness must be able to say no: a cause whose claim is wrong is not ok.
func TestWrongClaimsAreCaught(t *testing.T) {
	why := func(change func(*Cause)) []string {
		c := *auxLossAtomics
		c.config = func() train.Config {
			config := train.Tiny()
			config.Steps = 6
			return config
		}
		change(&c)
		r, err := c.Reproduce(nil)
		require.NoError(t, err)
		require.Equal(t, len(r.Why) == 0, r.OK)
		return r.Why
	}
	require.Empty(t, why(func(*Cause) {}))
	require.Equal(t, []string{"the localiser names layers.2.moe.router.aux_loss, not *.topk",
		"mtp.0.layers.1.moe.router.aux_loss is a root of its own, and not the cause's"}, why(func(c *Cause) { c.Root = "*.topk" }))
	require.Equal(t, []string{"the class is not tie"}, why(func(c *Cause) { c.Class = "tie" }))
	require.Equal(t, []string{"still harmless: the pair differs"}, why(func(c *Cause) { c.harmless = []half{{"still harmless", c.broken}} }))
	require.Equal(t, []string{"the verdict is origin, not memory"}, why(func(c *Cause) { c.verdict = "memory" }))
	require.Equal(t, []string{"the cured pair differs"}, why(func(c *Cause) { c.cured = c.broken }))
	require.Equal(t, []string{"the pair without the cause differs"}, why(func(c *Cause) { c.healthy = c.broken }))
	require.Equal(t, []string{"the pair with the cause does not differ"}, why(func(c *Cause) { c.broken = c.cured }))
	require.Equal(t, []string{"half alone already cures it"}, why(func(c *Cause) { c.halves = []half{{"half", c.cured}} }))
	also := why(func(c *Cause) { c.Root = "layers.2.moe.router.aux_loss" })
	require.Len(t, also, 1)
	require.Contains(t, also[0], "is a root of its own")
	require.Empty(t, why(func(c *Cause) { c.Root, c.also = "layers.2.moe.router.aux_loss", []string{"*.aux_loss"} }))
	require.Equal(t, []string{"no route flips"}, why(func(c *Cause) { c.flips = true }))
	require.Equal(t, []string{"a metric or the state of a step shows it"}, why(func(c *Cause) { *c, c.silent = *scaleRebuild, true }))
	require.Equal(t, []string{"the pair with the cause does not differ"}, why(func(c *Cause) { *c, c.silent = *mxDoubleQuant, false }))
}

func TestSpecRefusesWhatCannotRun(t *testing.T) {
	_, err := Run(Spec{Config: auxLossAtomics.Config(), Recipe: "slow"})
	require.ErrorContains(t, err, "must be one of fixed, fast")
	_, _, err = Reveal("matmul", "k:seq", 0, device.Schedule{})
	require.ErrorContains(t, err, "must be from 1")
}
