package run

import (
	"cmp"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/trace"
	"firstbit/train"
)

// A run is watched until it leaves a recorded one, by a metric or by its state alone, and ends there; one that does not leave it trains on.
func TestWatch(t *testing.T) {
	spec := func(steps int, faults ...string) Spec {
		c := train.Pico()
		c.Steps = steps
		return Spec{Config: c, Checks: Checks{Strict: true}, Faults: faults}
	}
	recorded := spec(4)
	recorded.Trace = trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: trace.Metrics}
	_, err := Run(recorded)
	require.NoError(t, err)
	tr := opened(t, recorded.Trace.Dir)
	const more = 10
	metric := spec(more, "flip@losses.0 step=3 elem=0 bit=3") // which nothing is computed from
	state := spec(4, "flip@optim.embed.w step=4 phase=opt elem=5 bit=2")
	for want, s := range map[int]Spec{0: spec(4), 3: metric, 4: state} {
		s.Trace = trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: trace.Metrics}
		parts, err := Watch(s, tr)
		require.NoError(t, err)
		require.Equal(t, want, parts)
		require.Equal(t, cmp.Or(want, s.Config.Steps), *opened(t, s.Trace.Dir).Run.Last)
	}
}
