package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/diff"
	"firstbit/trace"
	"firstbit/train"
)

func pairOf(t *testing.T, change func(side int, s *Spec)) *Pair {
	p := &Pair{Dir: t.TempDir()}
	for side := range p.Specs {
		c := train.Tiny()
		c.Steps = 6
		p.Specs[side] = Spec{Config: c, Schedule: device.Schedule{Seed: 1}, Checks: Checks{Strict: true}}
		change(side, &p.Specs[side])
	}
	return p
}

// A pair is localised from the checkpoint before the step at which it parts: what a window traces is that step, and the same Call is
// found as from the beginning.
func TestPairIsLocalisedFromACheckpoint(t *testing.T) {
	p := pairOf(t, func(side int, s *Spec) {
		if side == 1 {
			s.Faults = []string{"flip@layers.1.attn.wq step=5 elem=500 bit=20"}
		}
	})
	var levels []trace.Level
	r, err := diff.Localize(p.Trace, func(l trace.Level) { levels = append(levels, l) })
	require.NoError(t, err)
	require.Equal(t, 4, p.from)
	require.Equal(t, "layers.1.attn.wq", r.First.Path())
	require.Equal(t, []any{"origin", 5}, []any{r.First.Verdict, r.First.Iteration})
	require.Equal(t, "hardware", *r.Class)
	require.True(t, r.Confirmed)
	require.Len(t, levels, 5)
	same, err := p.Same()
	require.NoError(t, err)
	require.False(t, same)
}

// Deeper levels trace the ranks alone to which no other brought their difference, and look inside the Calls of the scope alone in which it is.
func TestPairTracesSuspectedRanks(t *testing.T) {
	p := pairOf(t, func(side int, s *Spec) {
		s.Layout.DP = 2
		if side == 1 {
			s.Faults = []string{"flip@layers.1.attn.wq step=5 elem=500 bit=20 rank=1"}
		}
	})
	var ranks [2][]string
	inner := ""
	r, err := diff.Localize(func(side int, w diff.Window) (*trace.Trace, error) {
		ranks[side] = append(ranks[side], w.Ranks.String())
		tr, err := p.Trace(side, w)
		for i := 0; err == nil && side == 0 && i < len(tr.Ranks[0].Records); i++ {
			if r := &tr.Ranks[0].Records[i]; r.Kind == "kernel" {
				require.Equal(t, "layers.1.attn", r.Scope)
				inner += r.Name + " "
			}
		}
		return tr, err
	}, nil)
	require.NoError(t, err)
	require.Equal(t, []any{"layers.1.attn.wq", 1}, []any{r.First.Path(), r.First.Rank})
	require.Contains(t, inner, "wq")
	for side := range ranks {
		require.Equal(t, []string{"", "", "1", "1", "1"}, ranks[side])
	}
}

// What changed in memory after the last Call of a step is found where it is first read, in the next.
func TestPairFindsTheReader(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing here is concurrent that other tests are not")
	}
	p := pairOf(t, func(side int, s *Spec) {
		if side == 1 {
			s.Faults = []string{"flip@optim.embed.w at=rest step=4 phase=opt elem=5 bit=20"}
		}
	})
	r, err := diff.Localize(p.Trace, nil)
	require.NoError(t, err)
	require.Equal(t, []any{"memory", "embed", 5}, []any{r.First.Verdict, r.First.Path(), r.First.Iteration})
	require.Len(t, r.Roots, 1, "whoever reads it later is a consequence")
}

// A run whose fault depends on what it did before does not continue from its checkpoint as it went on: its windows begin where it did.
func TestPairBeginsAnewWhereItMust(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing here is concurrent that other tests are not")
	}
	p := pairOf(t, func(side int, s *Spec) {
		if side == 1 { // what it wrote in step 3 stays
			s.Faults = []string{"drop@layers.1.attn.wq step=4"}
		}
	})
	r, err := diff.Localize(p.Trace, nil)
	require.NoError(t, err)
	require.Zero(t, p.from)
	require.Equal(t, []any{"origin", "layers.1.attn.wq", 4}, []any{r.First.Verdict, r.First.Path(), r.First.Iteration})

	same := pairOf(t, func(int, *Spec) {})
	r, err = diff.Localize(same.Trace, nil)
	require.NoError(t, err)
	require.True(t, r.Identical)
}

// Of a run that was not stopped and one that continues, the restore is in the window.
func TestPairOfARestore(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing here is concurrent that other tests are not")
	}
	dir := t.TempDir()
	noisy := func(s *Spec) { s.Config.Model.Dropout = 0.1 }
	saved := pairOf(t, func(_ int, s *Spec) { noisy(s); s.Save, s.Until = Save{Dir: dir}, 3 })
	_, err := Run(saved.Specs[0])
	require.NoError(t, err)
	p := pairOf(t, func(side int, s *Spec) {
		noisy(s)
		if side == 1 {
			s.Resume, s.Faults = dir, []string{"draw@rng.dropout.tp when=after"}
		}
	})
	r, err := diff.Localize(p.Trace, nil)
	require.NoError(t, err)
	require.Equal(t, []any{"restore", "layers.0.dropout.mask", 4}, []any{r.First.Verdict, r.First.Path(), r.First.Iteration})
	require.Equal(t, "state", *r.Class)
}
