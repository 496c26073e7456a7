package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/train"
)

// Each rule refuses what it shows, by its own name, and what it shows parts where nobody refuses it.
func TestRulesRefuseWhatParts(t *testing.T) {
	for _, r := range Rules() {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			var states [2][]train.Result
			for side := range states {
				s, err := r.Show.Spec(side)
				require.NoError(t, err)
				s.Digest, s.Deterministic = true, true
				err = s.Check()
				var refused Refusal
				require.ErrorAs(t, err, &refused)
				require.Equal(t, r.ID, refused.Rule, "%v", err)
				require.ErrorContains(t, err, refused.Argument+": "+refused.Call+" (")
				s.Deterministic = false
				o, err := Run(s)
				require.NoError(t, err)
				states[side] = o.Steps
			}
			require.NotEqual(t, states[0], states[1], r.Show.Flags(0))
		})
	}
}

// What only appears while a run goes ends it at the Call; of several ranks that find something the first rank's first Call is named, whoever came first.
func TestDeterministicRunEndsAtTheCall(t *testing.T) {
	s := Spec{Config: train.Pico(), Layout: parallel.Layout{DP: 4}, Recipe: "fast"}
	s.Begin = func() { s.Deterministic = true } // after the check
	_, err := (&job{Spec: &s}).run()
	var refused Refusal
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "--recipe fast", refused.Argument)

	s = Spec{Config: train.Pico(), Layout: parallel.Layout{DP: 4}, Recipe: "fast"}
	first, err := s.Refusals()
	require.NoError(t, err)
	require.Greater(t, len(first), 5)
	for range 3 {
		again, err := s.Refusals()
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
}

// A recipe that is deterministic by itself has nothing to refuse, in any kernel; what completes in any order and changes no bit may.
func TestNoKernelArrivesByItself(t *testing.T) {
	for _, recipe := range []string{"fixed", "canonical"} {
		c := train.Pico()
		c.Model.MoE.Aux = "sequence"
		calls, err := Calls(Spec{Config: c, Recipe: recipe})
		require.NoError(t, err)
		for _, call := range calls {
			require.False(t, call.Plan.Varies(), "%s by %s", call.Name, recipe)
		}
	}
	s := Spec{Config: train.Pico(), Layout: parallel.Layout{DP: 2}, Plans: []string{"grads.completion buckets:arrival"}, Checks: Checks{Deterministic: true}}
	s.Config.Cluster.Overlap = true
	require.NoError(t, s.Check())
}
