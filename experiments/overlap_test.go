package experiments

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/train"
)

// overlapped is a small run of everything in a layout, with overlap or without.
func overlapped(t *testing.T, layout string, overlap bool, schedule uint64, change func(*Spec)) *Outcome {
	t.Helper()
	l, err := parallel.ParseLayout(layout)
	require.NoError(t, err)
	s := overRanks(1, func(c *train.Config) {
		c.Batch, c.Micro, c.Seq, c.Steps, c.Cluster.Bucket, c.Cluster.Overlap = 2, 4, 16, 3, 2000, overlap
		c.Model.Pattern, c.Model.Heads, c.Model.KVHeads, c.Model.SSM.Groups = "ME*E/*E", 4, 4, 2
		if l.CP > 1 {
			c.Batch = 1
		}
	})
	s.Layout, s.Schedule = l, device.Schedule{Seed: schedule}
	if change != nil {
		change(&s)
	}
	o, err := Run(s)
	require.NoError(t, err)
	return o
}

// By the fixed recipe overlap changes no bit, in any layout, under any schedule: whatever is read was waited for.
func TestOverlapChangesNoBit(t *testing.T) {
	layouts := []string{"dp=4", "ep=2", "dp=2,tp=2,ep=2", "dp=2,cp=2", "pp=2,dp=2", "pp=2,vpp=2,ep=2", "pp=4,ep=2", "dp=2,tp=2,pp=2,ep=2", "tp=2,ep=2,etp=2,dp=2"}
	changes := map[string]func(*Spec){
		"fp32": nil,
		"bf16, dropout and jitter, recomputed": func(s *Spec) {
			s.Config.Precision, s.Config.Model.Dropout, s.Config.Model.MoE.Jitter, s.Config.Model.Recompute = "bf16", 0.1, 0.1, true
		},
		"tied": func(s *Spec) { s.Config.Model.Tied = true },
	}
	if testing.Short() {
		layouts = []string{"pp=2,vpp=2,ep=2"}
	}
	for _, layout := range layouts {
		for name, change := range changes {
			t.Run(layout+" "+name, func(t *testing.T) {
				want := overlapped(t, layout, false, 1, change)
				for schedule := range uint64(3) {
					got := overlapped(t, layout, true, schedule, change)
					require.Equal(t, want.Steps, got.Steps, "schedule %d", schedule)
				}
			})
		}
	}
}

// The fast recipe waits for whatever bucket is there, so the squares of buckets meet in an order of the schedule's.
func TestOverlapCompletesByArrival(t *testing.T) {
	arrival := func(s *Spec) { s.Plans = []string{"grads.completion buckets:arrival"} }
	one := overlapped(t, "dp=4", true, 1, arrival)
	require.Equal(t, one.Steps, overlapped(t, "dp=4", true, 1, arrival).Steps, "a schedule replays")
	require.NotEqual(t, one.Steps, overlapped(t, "dp=4", true, 2, arrival).Steps)
	in := overlapped(t, "dp=4", true, 2, func(s *Spec) { s.Plans = []string{"grads.completion buckets:seq"} })
	require.Equal(t, overlapped(t, "dp=4", false, 1, nil).Steps, in.Steps)
}
