package inject

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/nn"
	"firstbit/rng"
	"firstbit/state"
)

// Streams are drawn from, or seeded again, once before the first Call of a phase, by a Call of its own.
func TestStreamsAreDisturbedInSteps(t *testing.T) {
	run := func(faults ...string) (at []float64, calls []string, all []*Fault) {
		i := &Injector{}
		for _, text := range faults {
			f, err := Parse(text)
			require.NoError(t, err)
			f.Settle(false)
			i.Faults = append(i.Faults, f)
		}
		dev := device.New(device.Options{}, i.Memory, func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				next(c)
				calls = append(calls, c.ID.Phase.String()+" "+c.ID.Path)
			}
		})
		s := nn.NewStream("rng.dropout.tp")
		s.Seed(rng.New(7, "dropout.tp"))
		i.Begin(dev, []device.Held{{Item: state.Item{Name: s.Name, Role: state.RandomStream}, Tensor: s.State}})
		for step := 1; step <= 2; step++ {
			for _, phase := range []device.Phase{device.Fwd, device.Bwd} {
				for micro := range 2 {
					dev.At(step, micro, phase)
					for _, label := range []string{"a", "b"} {
						c := dev.Open(label, readKernel)
						c.Read("y", s.State)
						c.Do()
					}
					at = append(at, draw(same(s.State), 1))
					draw(s.State, 1)
				}
			}
		}
		return at, calls, i.Faults
	}
	healthy, calls, _ := run()
	require.Len(t, calls, 16)
	at, calls, f := run("draw@rng.* step=2")
	require.Equal(t, healthy[:4], at[:4])
	require.Equal(t, healthy[5:], at[4:7])
	require.Equal(t, "fwd iterator.rng.dropout.tp", calls[8])
	require.Len(t, calls, 17)
	require.Equal(t, 1, changes(f[0]))
	at, _, f = run("draw@rng.* phase=bwd micro=1")
	require.Equal(t, healthy[:3], at[:3])
	require.Equal(t, healthy[4:7], at[3:6])
	require.Equal(t, 2, changes(f[0]))
	at, calls, _ = run("draw@rng.*", "draw@rng.dropout.tp")
	require.Equal(t, healthy[2], at[0])
	require.Equal(t, []string{"fwd iterator.rng.dropout.tp", "fwd iterator.rng.dropout.tp.2"}, []string{calls[0], calls[1]})
	at, calls, f = run("seed@rng.* step=2")
	require.Equal(t, healthy[:4], at[4:])
	require.Equal(t, "fwd seed.rng.dropout.tp", calls[8])
	require.Equal(t, 1, changes(f[0]))
	for _, none := range []string{"draw@rng.jitter", "draw@rng.* phase=rec", "draw@rng.* step=3", "draw@rng.* tp=1", "seed@rng.* rank=1"} {
		at, _, f := run(none)
		require.Equal(t, healthy, at)
		require.Zero(t, changes(f[0]))
	}
	_, _, f = run("seed@rng.* step=1")
	acted, changed := f[0].Counts()
	require.Equal(t, []int{1, 0}, []int{acted, changed}, "it stands where it was seeded")
}
