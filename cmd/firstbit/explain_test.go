package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/run"
)

// The rules are printed, and what they refuse of a run, which does not begin; as JSON by its contract.
func TestExplain(t *testing.T) {
	explained := []string{"train", "--preset", "pico", "--deterministic", "--explain"}
	code, stdout, stderr := firstbit(t, explained...)
	require.Equal(t, exitSame, code, stderr)
	for _, r := range run.Rules() {
		require.Contains(t, stdout, r.ID+"\n  refuses  "+r.Field+"\n  because  "+r.Why+"\n  set      "+r.Set+"\n")
	}
	require.Contains(t, stdout, "nothing of this run is refused\n")
	require.NotContains(t, stdout, "  here  ")

	code, stdout, stderr = firstbit(t, append(explained, "--plan", "*.wk.dw k:splitk(4,arrival)")...)
	require.Equal(t, exitDifferent, code, stderr)
	require.Contains(t, stdout, `  here     --plan "*.wk.dw k:splitk(4,arrival)": layers.1.attn.wk.dw (matmul.wgrad) runs by k:splitk(4,arrival)/fp32, 1×`)
	require.NotContains(t, stdout, "nothing of this run")

	code, stdout, stderr = firstbit(t, append(explained, "--recipe", "fast", "--json")...)
	require.Equal(t, exitDifferent, code, stderr)
	var got struct {
		OK    bool
		Rules []struct {
			ID, Field, Why, Set string
			Show                [2]string
		}
		Refused []run.Refusal
	}
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&got))
	require.False(t, got.OK)
	require.Len(t, got.Rules, len(run.Rules()))
	require.Equal(t, "dprob-atomics", got.Refused[0].Rule)
	require.Equal(t, "--recipe fast", got.Refused[0].Argument)
	for _, r := range got.Rules { // whose flags are train's
		for _, flags := range r.Show {
			code, _, stderr := firstbit(t, append([]string{"list", "--calls", "--json"}, words(flags)...)...)
			require.Equal(t, exitSame, code, "%s: %s", flags, stderr)
		}
	}
	code, _, stderr = firstbit(t, "train", "--explain")
	require.Equal(t, exitBad, code)
	require.Equal(t, "firstbit: --explain: needs --deterministic\n", stderr)
}
