package run

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

// Whenever a run is interrupted, all ranks end after the same step, with the bits of a run that was not: its trace is complete, its checkpoint
// is of that step, and what continues from it has the rest.
func TestAnInterruptEndsEveryRankAfterOneStep(t *testing.T) {
	const steps = 6
	for _, layout := range []string{"dp=1", "dp=4", "dp=2,pp=2"} {
		l, err := parallel.ParseLayout(layout)
		require.NoError(t, err)
		spec := func() Spec {
			s := small(steps)
			s.Layout, s.Digest, s.Config.Micro = l, true, 2
			return s
		}
		want, err := Run(spec())
		require.NoError(t, err)
		for at := range steps - 1 { // by each rank, and early and late in the step of another
			dir := t.TempDir()
			interrupt := make(chan struct{})
			s := spec()
			s.Interrupt = interrupt
			if l.World() == l.DP {
				s.Export = filepath.Join(dir, "hf")
			}
			s.Trace = trace.Options{Dir: filepath.Join(dir, "t"), Level: trace.Metrics}
			s.Save = Save{Dir: filepath.Join(dir, "ck"), Every: 2}
			last := make([]int, l.World())
			s.EachRank = func(rank int, _ *train.Trainer, r train.Result) error {
				if last[rank] = r.Step; r.Step == at+1 && rank == at%l.World() {
					close(interrupt)
				}
				return nil
			}
			got, err := Run(s)
			require.NotNil(t, got, "%v", err)
			if len(got.Steps) == steps { // a rank was so far ahead
				require.NoError(t, err)
				continue
			}
			var i *Interrupted
			require.ErrorAs(t, err, &i)
			require.GreaterOrEqual(t, i.Step, at+1)
			require.LessOrEqual(t, i.Step, at+2, "no rank goes on once it may know")
			require.Equal(t, want.Steps[:i.Step], got.Steps, layout)
			for rank := range last {
				require.Equal(t, i.Step, last[rank], "rank %d of %s", rank, layout)
			}
			tr, err := trace.Open(s.Trace.Dir)
			require.NoError(t, err)
			require.False(t, tr.Truncated)
			require.Equal(t, i.Step, *tr.Run.Last)
			require.NoDirExists(t, filepath.Join(dir, "hf"), "the weights are not those of the end")

			ck, err := checkpoint.Open(s.Save.Dir)
			require.NoError(t, err)
			require.Equal(t, i.Saved, ck.Dir)
			require.Equal(t, i.Step, ck.Step)
			require.Len(t, tree(t, s.Save.Dir), (i.Step+1)/2, "every second, and the last")
			s = spec()
			s.Resume = filepath.Dir(ck.Dir)
			rest, err := Run(s)
			require.NoError(t, err)
			require.Equal(t, want.Steps[i.Step:], rest.Steps, layout)
		}
	}
}

func TestAnInterruptBeforeTheFirstStepLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := small(3)
	s.Trace = trace.Options{Dir: filepath.Join(dir, "t"), Level: trace.Kernel}
	s.Save, s.Export = Save{Dir: filepath.Join(dir, "ck")}, filepath.Join(dir, "hf")
	interrupt := make(chan struct{})
	close(interrupt)
	s.Interrupt = interrupt
	o, err := Run(s)
	require.Nil(t, o)
	require.EqualError(t, err, "interrupted before the first step")
	require.Empty(t, tree(t, dir))
}

func TestAnInterruptInTheLastStepIsNone(t *testing.T) {
	s := small(3)
	interrupt := make(chan struct{})
	s.Interrupt, s.Export = interrupt, filepath.Join(t.TempDir(), "hf")
	s.Each = func(r train.Result) error {
		if r.Step == 3 {
			close(interrupt)
		}
		return nil
	}
	o, err := Run(s)
	require.NoError(t, err)
	require.Len(t, o.Steps, 3)
	require.DirExists(t, s.Export)
}
