package run

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/train"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden fingerprints")

const goldenFile = "testdata/golden.json"

// goldenConfig is a preset, tiny for several ranks, or tiny with everything that the presets leave off.
func goldenConfig(t *testing.T, name string) train.Config {
	if name == "ranks" {
		c := train.Tiny()
		c.Model.MoE.Aux = "sequence"
		return c
	}
	if name != "whole" {
		c, err := train.Preset(name)
		require.NoError(t, err)
		return c
	}
	c := train.Tiny()
	m := &c.Model
	m.Dropout, m.Recompute, m.MTP.Depths, m.MTP.Repeated = 0.1, true, 2, true
	m.MoE.Jitter, m.MoE.Latent, m.MoE.Groups, m.MoE.GroupsKept, m.MoE.TopK, m.MoE.Aux = 0.05, 16, 4, 2, 4, "sequence"
	return c
}

// Fingerprints of a few steps: one file for all architectures.
func TestGolden(t *testing.T) {
	got := map[string][]string{}
	if testing.Short() {
		t.Skip("takes minutes under the race detector")
	}
	for _, name := range []string{"tiny", "small", "whole", "ranks"} {
		for _, precision := range []string{"fp32", "bf16", "fp64"} {
			for _, recipe := range []string{"fixed", "fast", "canonical"} {
				if recipe == "canonical" && (name != "ranks" || precision == "fp64") {
					continue
				}
				c := goldenConfig(t, name)
				c.Precision, c.Micro = precision, 2
				var layout parallel.Layout
				if name == "ranks" {
					layout.DP, c.Batch = 4, 1
				}
				o, err := Run(Spec{Config: c, Layout: layout, Recipe: recipe, Schedule: device.Schedule{Seed: 3}, Until: 3, Digest: true})
				require.NoError(t, err)
				for _, s := range o.Steps {
					got[name+" "+precision+" "+recipe] = append(got[name+" "+precision+" "+recipe], s.Metrics[0].Bits+" "+s.State)
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
