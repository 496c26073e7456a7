package tune

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/reduce"
)

// A release ships what those before it do and its own; between two releases lie those that came out in between, in either direction.
func TestReleases(t *testing.T) {
	names := Releases()
	require.Equal(t, device.DefaultLibrary, names[0])
	require.Nil(t, library(names[0]))
	require.Nil(t, library(""))
	for i, r := range releases {
		all := library(r.name)
		for _, before := range releases[:i+1] {
			for _, s := range before.ships {
				require.Contains(t, all, s.kernel)
			}
		}
		require.NoError(t, ParseRelease(r.name))
	}
	between, err := Between(names[1], names[3])
	require.NoError(t, err)
	require.Equal(t, names[1:4], between)
	between, err = Between(names[3], names[1])
	require.NoError(t, err)
	require.Equal(t, []string{names[3], names[2], names[1]}, between)
	_, err = Between(names[0], "sim-12.7")
	require.ErrorContains(t, err, `library "sim-12.7"`)
}

// Of a plan by hand, a release, a recipe and a kernel that was set up before, the canonical recipe is over the library, a plan by hand over
// any release, and only what was captured over a plan by hand.
func TestWhoChoosesLast(t *testing.T) {
	matmul := &device.Kernel{Name: "matmul", Out: device.Names("y"), Fixed: reduce.MustPlan("k:seq/fp32"), Fast: reduce.MustPlan("k:arrival/fp32")}
	plan := func(tuner *Tuner) (plan, library string) {
		dev := device.New(device.Options{Library: tuner.Library}, tuner.Middleware)
		dev.At(1, 0, device.Fwd)
		c := dev.Open("name", matmul)
		c.Body = nil
		c.Do()
		require.NoError(t, tuner.Err())
		return c.Plan.String(), c.Library
	}
	choose := func(c Chooser) *Policy { return &Policy{Glob: "*", Choose: c, Where: Everywhere(EveryPhase)} }
	hand, err := ParsePolicy("name k:reverse")
	require.NoError(t, err)
	for _, c := range []struct {
		tuner         *Tuner
		plan, library string
	}{
		{&Tuner{Recipe: "fixed"}, "k:seq/fp32", "sim-12.8"},
		{&Tuner{Recipe: "fixed", Library: "sim-13.1"}, "k:lanes(8)/fp32", "sim-13.1"},
		{&Tuner{Recipe: "fast", Library: "sim-13.1"}, "k:lanes(8)/fp32", "sim-13.1"},
		{&Tuner{Recipe: Canonical, Library: "sim-13.1"}, "k:seq/fp32", "sim-13.1"},
		{&Tuner{Recipe: "fixed", Policies: []*Policy{choose(&Release{Name: "sim-13.1"})}}, "k:lanes(8)/fp32", "sim-13.1"},
		{&Tuner{Recipe: "fixed", Library: "sim-13.1", Policies: []*Policy{choose(&Release{Name: "sim-13.0"})}}, "k:seq/fp32", "sim-13.0"},
		{&Tuner{Recipe: "fixed", Policies: []*Policy{hand, choose(&Release{Name: "sim-13.1"})}}, "k:reverse/fp32", "sim-13.1"},
		{&Tuner{Recipe: "fixed", Policies: []*Policy{hand, choose(&Autotune{})}}, "k:reverse/fp32", "sim-12.8"},
		{&Tuner{Recipe: "fixed", Policies: []*Policy{hand, choose(Captured{})}}, "k:arrival/fp32", "sim-12.8"},
	} {
		plan, library := plan(c.tuner)
		require.Equal(t, c.plan, plan)
		require.Equal(t, c.library, library)
	}
}

// A tuner keeps its choice for a shape as long as it lives, and chooses by the schedule alone.
func TestAutotune(t *testing.T) {
	chosen := func(seed uint64, steps int) (plans []string) {
		tuner := &Tuner{Recipe: "fixed", Policies: []*Policy{{Glob: "*", Choose: &Autotune{}, Where: Everywhere(EveryPhase)}}}
		dev := device.New(device.Options{Schedule: device.Schedule{Seed: seed}}, tuner.Middleware)
		k := &device.Kernel{Name: "matmul", Out: device.Names("y"), Fixed: reduce.MustPlan("k:seq/fp32")}
		for step := range steps {
			dev.At(step+1, 0, device.Fwd)
			c := dev.Open("name", k)
			c.Body = nil
			c.Do()
			plans = append(plans, c.Plan.String())
		}
		return plans
	}
	seen := map[string]bool{}
	for seed := range uint64(20) {
		plans := chosen(seed, 4)
		for _, p := range plans {
			require.Equal(t, plans[0], p)
		}
		require.Equal(t, plans, chosen(seed, 4))
		seen[plans[0]] = true
	}
	require.Len(t, seen, len(products))
}
