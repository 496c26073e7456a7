package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/verify"
)

// JSON by its contract.
func TestVerifyLayouts(t *testing.T) {
	code, stdout, stderr := firstbit(t, "verify", "layouts", "--layout", "dp=1", "--json") // beside one rank nothing else
	require.Equal(t, exitSame, code, stderr)
	var got struct {
		OK    bool
		Cells []struct {
			Name string
			OK   bool
			Hash string
			Why  *string
		}
	}
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&got))
	require.False(t, d.More())
	require.True(t, got.OK)
	require.Len(t, got.Cells, verify.MatrixCells(0))
	for _, c := range got.Cells {
		require.True(t, c.OK)
		require.Nil(t, c.Why)
		require.Len(t, c.Hash, 32)
	}
	require.Contains(t, stdout, `"why":null`)
}

// A configuration of one's own repeats, and does not by the fast recipe, which is an exit code of 1 and names the step.
func TestVerifyRepeat(t *testing.T) {
	args := []string{"verify", "repeat", "--preset", "pico", "--layout", "dp=3", "--layout", "pp=2", "--steps", "2"}
	code, stdout, stderr := firstbit(t, args...)
	require.Equal(t, exitSame, code, stderr)
	require.Contains(t, stdout, "ok   dp3 M*E- fp32 fixed ")
	require.Contains(t, stdout, "ok   pp2 M*E- fp32 fixed ")
	code, all, stderr := firstbit(t, "verify", "repeat", "--preset", "pico", "--steps", "1")
	require.Equal(t, exitSame, code, stderr)
	require.Contains(t, all, "ok   pp2 M*E- fp32 fixed ")
	require.NotContains(t, all, "tp2", "pico has one group")
	code, stdout, stderr = firstbit(t, append(args, "--recipe", "fast", "--json")...)
	require.Equal(t, exitDifferent, code, stderr)
	var got struct{ Cells []verify.Cell }
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Len(t, got.Cells, 2)
	for _, c := range got.Cells {
		require.Contains(t, *c.Why, "step 1 under schedule 1, rank 0: ")
	}
}

// A deterministic run may be canonical; its bits are not those of the fixed recipe.
func TestTrainCanonical(t *testing.T) {
	args := []string{"train", "--steps", "2", "--set", "model.moe.aux=sequence", "--deterministic", "--recipe"}
	code, canonical, stderr := firstbit(t, append(args, "canonical")...)
	require.Equal(t, exitSame, code, stderr)
	code, again, stderr := firstbit(t, append(args, "canonical", "--schedule", "9")...)
	require.Equal(t, exitSame, code, stderr)
	require.Equal(t, canonical, again)
	code, fixed, stderr := firstbit(t, append(args, "fixed")...)
	require.Equal(t, exitSame, code, stderr)
	require.NotEqual(t, canonical, fixed)
}

// A cell that does not hold is an exit code of 1, in both forms, and says why.
func TestVerifyReportsWhatDoesNotHold(t *testing.T) {
	why := "differs from one rank"
	cells := []verify.Cell{{Name: "dp1", OK: true, Hash: "aa"}, {Name: "dp2", Hash: "bb", Why: &why}}
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		require.Equal(t, outcome(exitDifferent), conclude(&out, cells, "one hash for all layouts: cc", asJSON))
		require.NotContains(t, out.String(), "one hash")
		out.Reset()
		require.NoError(t, conclude(&out, cells[:1], "one hash for all layouts: cc", asJSON))
		require.Equal(t, !asJSON, strings.Contains(out.String(), "one hash for all layouts: cc"))
	}
	var out strings.Builder
	printCell(&out, cells[1])
	require.Equal(t, "not  dp2                              bb differs from one rank\n", out.String())
}
