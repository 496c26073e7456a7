package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
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
		require.ErrorContains(t, s.Check(), "deterministic: "+fault)
		s.Faults = []string{"library@layers.0.* to=sim-13.1"}
		require.NoError(t, s.Check())
	}
}
