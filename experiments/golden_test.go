package experiments

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/train"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden fingerprints")

const goldenFile = "testdata/golden.json"

// Fingerprints of a few steps: one file for all architectures.
func TestGolden(t *testing.T) {
	got := map[string][]string{}
	if testing.Short() {
		t.Skip("takes minutes under the race detector")
	}
	for _, preset := range []string{"tiny", "small"} {
		for _, precision := range []string{"fp32", "bf16", "fp64"} {
			for _, recipe := range []string{"fixed", "fast"} {
				c, err := train.Preset(preset)
				require.NoError(t, err)
				c.Precision, c.Micro = precision, 2
				o, err := Run(Spec{Config: c, Recipe: recipe, Schedule: device.Schedule{Seed: 3}, Until: 3, Digest: true})
				require.NoError(t, err)
				for _, s := range o.Steps {
					got[preset+" "+precision+" "+recipe] = append(got[preset+" "+precision+" "+recipe], s.Metrics[0].Bits+" "+s.State)
				}
			}
		}
	}
	if *rewrite {
		text, err := json.MarshalIndent(got, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(goldenFile, append(text, '\n'), 0o644))
	}
	text, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	var want map[string][]string
	require.NoError(t, json.Unmarshal(text, &want))
	require.Equal(t, want, got)
	require.NotEqual(t, got["tiny fp32 fixed"], got["tiny fp32 fast"], "the fingerprint must see a recipe")
}
