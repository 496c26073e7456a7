package run

import (
	"testing"

	"github.com/stretchr/testify/require"

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
