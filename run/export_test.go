package run

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/lowp"
	"firstbit/parallel"
	"firstbit/train"
)

// What a run of several ranks exports are the masters of all of them: rounded, they are the weights.
func TestExportOfRanks(t *testing.T) {
	dir := t.TempDir()
	c := train.Pico()
	c.Steps, c.Precision, c.Cluster.Bucket = 3, "bf16", 1<<10
	_, err := Run(Spec{Config: c, Layout: parallel.Layout{DP: 4}, Export: filepath.Join(dir, "hf"), Save: Save{Dir: filepath.Join(dir, "ck")}})
	require.NoError(t, err)
	hf, err := checkpoint.ReadFile(filepath.Join(dir, "hf", "model.safetensors"), checkpoint.Limit{Bytes: 1 << 20, Header: 1 << 20})
	require.NoError(t, err)
	ck, err := checkpoint.Open(filepath.Join(dir, "ck"))
	require.NoError(t, err)
	for theirs, ours := range map[string]string{ // order reaches no result
		"backbone.embeddings.weight":      "embed.w",
		"backbone.norm_f.weight":          "norm.w",
		"backbone.layers.0.mixer.A_log":   "layers.0.ssm.a_log",
		"backbone.layers.1.norm.weight":   "layers.1.norm.w",
		"backbone.layers.0.mixer.dt_bias": "layers.0.ssm.dt_bias",
	} {
		x, ok := hf.Tensor(theirs)
		require.True(t, ok, theirs)
		y, ok := ck.Ranks[0].Tensor(ours)
		require.True(t, ok, ours)
		master, err := x.Values()
		require.NoError(t, err)
		weight, err := y.Values()
		require.NoError(t, err)
		f, err := y.Format()
		require.NoError(t, err)
		for i := range master {
			if f == lowp.BF16 {
				master[i] = float64(lowp.BF16.Round(float32(master[i])))
			}
		}
		require.Equal(t, weight, master, ours)
	}
}
