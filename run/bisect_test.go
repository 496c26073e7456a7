package run

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/train"
	"firstbit/tune"
)

// The releases are halved to the one that moved a bit. One that only ships another tile moves none.
func TestBisectLibrary(t *testing.T) {
	pair := func(a, b string) *Pair {
		p := &Pair{}
		for side, library := range []string{a, b} {
			c := train.Pico()
			c.Steps = 1
			p.Specs[side] = Spec{Config: c, Library: library}
		}
		return p
	}
	p := pair("sim-12.8", "sim-13.3")
	tried, err := p.BisectLibrary()
	require.NoError(t, err)
	require.Equal(t, []Released{{"sim-13.3", false}, {"sim-13.0", false}, {"sim-12.9", true}}, tried)
	require.Equal(t, []string{"sim-12.9", "sim-13.0"}, []string{p.Specs[0].Library, p.Specs[1].Library})
	p = pair("sim-13.3", "sim-13.0")
	_, err = p.BisectLibrary()
	require.NoError(t, err)
	require.Equal(t, []string{"sim-13.3", "sim-13.2"}, []string{p.Specs[0].Library, p.Specs[1].Library})
	tried, err = pair("sim-12.8", "sim-12.9").BisectLibrary()
	require.NoError(t, err)
	require.Equal(t, []Released{{"sim-12.9", true}}, tried)
	_, err = pair("sim-12.8", "sim-12.8").BisectLibrary()
	require.ErrorContains(t, err, "must be two releases")
}

// Every release moves the bits of the runs that have what it ships, and ships only what some run has.
func TestReleasesMoveBits(t *testing.T) {
	bits := func(library string) string {
		text, _, _ := left(t, Spec{Config: lasting(1, train.Tiny()), Library: library, Kept: Kept{Digest: true}}, 0)
		return text
	}
	names := tune.Releases()
	before := bits(names[0])
	for i, name := range names[1:] {
		now := bits(name)
		require.Equal(t, i > 0, before != now, name)
		before = now
	}
	require.Equal(t, device.DefaultLibrary, names[0])
}

// A deterministic run refuses kernels that were set up before it, and a tuner that goes by time.
func TestDeterministicRefusesWhatIsLate(t *testing.T) {
	for _, fault := range []string{"capture@layers.0.*", "autotune@layers.0.*"} {
		s := Spec{Config: train.Pico(), Faults: []string{fault}, Checks: Checks{Deterministic: true}}
		require.ErrorContains(t, s.Check(), fmt.Sprintf("deterministic: --inject %q: ", fault))
		s.Faults = []string{"library@layers.0.* to=sim-13.1"}
		require.NoError(t, s.Check())
	}
	// What is pinned by hand is not a tuner's choice; a plan for one rank of several that run the Call is one that they do not share.
	s := Spec{Config: train.Pico(), Faults: []string{"autotune@layers.3.mlp.w1"}, Plans: []string{"layers.3.mlp.w1 k:lanes(4)"}, Checks: Checks{Deterministic: true}}
	require.NoError(t, s.Check())
	s.Plans = []string{"layers.3.mlp.w1 k:lanes(4) step=2"}
	require.ErrorContains(t, s.Check(), "rule unpinned-tuner")
	s = Spec{Config: train.Pico(), Layout: parallel.Layout{PP: 2}, Plans: []string{"layers.3.mlp.w1 k:lanes(4) pp=1"}, Checks: Checks{Deterministic: true}}
	require.NoError(t, s.Check(), "nobody else runs it")
	s.Layout.DP = 2
	require.NoError(t, s.Check(), "both who run it have it")
	s.Plans[0] += " dp=1"
	require.ErrorContains(t, s.Check(), "rule unshared-tuner")
	// What arrives in a later step is seen before the first, and a choice that follows the number of nodes when there are two.
	s = Spec{Config: train.Pico(), Plans: []string{"*.wk.dw k:splitk(4,arrival) step=7-"}, Checks: Checks{Deterministic: true}}
	require.ErrorContains(t, s.Check(), "rule wgrad-split-k")
	s.Plans, s.Layout.DP = []string{"grads.bucket.? tuned=true"}, 4
	require.NoError(t, s.Check())
	s.Layout.DP = 8
	require.ErrorContains(t, s.Check(), `--plan "grads.bucket.? tuned=true": grads.bucket.0 (reduce_scatter) runs by ranks:arrival/fp32: `)
}
