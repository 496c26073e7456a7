package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/tune"
)

// noisy is a run of the matrix with dropout, jitter and recomputation.
func noisy(t *testing.T, precision, layout, recipe string) run.Spec {
	t.Helper()
	l, err := parallel.ParseLayout(layout)
	require.NoError(t, err)
	s := variant{"M*EM*EM*/*E", precision, plain}.spec(l, recipe)
	s.Config.Steps = 2
	m := &s.Config.Model
	m.Dropout, m.MoE.Jitter, m.Recompute, m.MTP.Depths, m.MTP.Repeated = 0.1, 0.05, true, 2, true
	return s
}

// Masks are those of the tokens, so that dropout and jitter leave the canonical recipe its promise.
func TestNoiseOnEveryLayout(t *testing.T) {
	for _, precision := range []string{"bf16", "fp32"} {
		if precision == "fp32" && !*exhaustive {
			continue
		}
		run := func(s run.Spec) Values {
			v, err := Run(s)
			require.NoError(t, err)
			return v
		}
		one := run(noisy(t, precision, "", tune.Canonical))
		for _, layout := range []string{"dp=8", "tp=2,ep=2", "tp=4", "cp=2", "tp=2,cp=2", "pp=2", "pp=2,vpp=2", "dp=2,tp=2,pp=2,ep=2"} {
			s := noisy(t, precision, layout, tune.Canonical)
			s.Schedule = device.Schedule{Seed: 1}
			require.Empty(t, one.Differ(run(s)), "%s %s", layout, precision)
		}
		s := noisy(t, precision, "", tune.Canonical)
		s.Config.Batch, s.Config.Micro = 1, matrixBatch
		require.Empty(t, one.Differ(run(s)), "other microbatches, %s", precision)

		s.Config.Model.Recompute = false
		require.Empty(t, one.Differ(run(s)), "without recomputation, %s", precision)
		for _, set := range []string{"model.dropout=0", "model.moe.jitter=0"} { // both are there
			s := noisy(t, precision, "", tune.Canonical)
			require.NoError(t, s.Config.Set(set))
			require.NotEmpty(t, one.Differ(run(s)), set)
		}
	}
}

// A stream of a rank's own is refused where bits must not depend on ranks.
func TestCanonicalRefusesStreamsOfRanks(t *testing.T) {
	for set, field := range map[string]string{"model.moe.jitter=0": "model.dropout", "model.dropout=0": "model.moe.jitter"} {
		s := noisy(t, "fp32", "tp=2", tune.Canonical)
		require.NoError(t, s.Config.Set("streams=rank"))
		require.NoError(t, s.Config.Set(set))
		require.EqualError(t, s.Check(), "streams: rank: must be indexed with recipe canonical: for "+field+
			" a rank would draw from a stream of its own")
	}
	s := noisy(t, "fp32", "tp=2", tune.Canonical)
	s.Config.Streams, s.Config.Model.Dropout, s.Config.Model.MoE.Jitter = "rank", 0, 0
	require.NoError(t, s.Check(), "nothing is drawn")
}

// Indexed masks have no state: a run that was stopped draws on by its step and samples.
func TestResumeOfIndexedStreams(t *testing.T) {
	for _, layout := range []string{"", "tp=2,ep=2", "pp=2,vpp=2"} {
		s := noisy(t, "bf16", layout, tune.Canonical)
		s.Config.Steps, s.Digest = 3, true
		cell, err := resumeCell{"", s}.verify(InProcess, nil)
		require.NoError(t, err)
		require.True(t, cell.OK, "%s: %v", layout, cell.Why)
	}
	// Negative control: the position of the samples decides the masks too.
	s := noisy(t, "bf16", "", tune.Canonical)
	s.Config.Steps, s.Digest = 2, true
	cell, err := resumeCell{"", s}.verify(InProcess, []string{"drop@data.consumed"})
	require.NoError(t, err)
	require.False(t, cell.OK)
}
