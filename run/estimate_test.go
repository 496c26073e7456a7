package run

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/train"
)

// The estimate of a run's memory is within a third of the heap that is live after a step.
func TestMemoryEstimate(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, tt := range []struct{ preset, layout, set string }{
		{"pico", "dp=8", "micro=1"}, {"pico", "dp=4,pp=2", "precision=bf16"}, {"tiny", "dp=2,ep=2", "batch=4"}, {"tiny", "pp=2,vpp=2", "micro=4"},
		{"tiny", "cp=2", "model.recompute=true"}, {"gpt", "dp=1", "seq=32"}, {"gpt", "dp=1", "precision=nvfp4"}, {"gpt", "dp=4", "optim.replicated=true"}, {"gpt", "tp=2", "model.vocab=8192"},
	} {
		c, err := train.Preset(tt.preset)
		require.NoError(t, err)
		require.NoError(t, c.Set(tt.set))
		l, err := parallel.ParseLayout(tt.layout)
		require.NoError(t, err)
		c.Steps = 2
		before, live := heap(), int64(0)
		_, err = Run(Spec{Config: c, Layout: l, Kept: Kept{Digest: true}, Hooks: Hooks{EachRank: func(rank int, _ *train.Trainer, r train.Result) error {
			if rank == 0 && r.Step == 2 {
				live = heap() - before
			}
			return nil
		}}})
		require.NoError(t, err)
		require.InEpsilon(t, live, c.Memory(l), 1.0/3, "%v: %d bytes, not %d", tt, live, c.Memory(l))
	}
}
