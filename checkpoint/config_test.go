package checkpoint

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
	"firstbit/model"
)

func TestConfigsRoundTrip(t *testing.T) {
	latent := small()
	latent.MoE.Latent, latent.HeadDim = 4, 0
	latent.Heads, latent.KVHeads = 3, 3
	groups := small()
	groups.MoE.Experts, groups.MoE.TopK, groups.MoE.Groups, groups.MoE.GroupsKept, groups.MoE.GroupTop = 12, 4, 4, 2, 2
	plain := small()
	plain.Pattern = "*-"
	one := small()
	one.MoE.TopK = 1
	mtp, repeated := small(), small()
	mtp.Pattern, mtp.MTP = "M-/*E", model.MTPConfig{Depths: 3, Factor: 0.5}
	repeated.Pattern, repeated.MTP = "M-/*E", model.MTPConfig{Depths: 3, Factor: 0.5, Repeated: true}
	for _, c := range []model.Config{small(), latent, groups, plain, one, mtp, repeated} {
		require.NoError(t, c.Validate())
		text, err := ConfigToHF(c)
		require.NoError(t, err)
		base := small()
		base.Pattern, base.Width, base.Tied, base.MTP = "-", 99, true, c.MTP
		got, err := ConfigFromHF(text, base)
		require.NoError(t, err)
		c.HeadDim = c.P()
		require.Equal(t, c, got)
	}
	tied := small()
	tied.Tied = true
	text, err := ConfigToHF(tied)
	require.NoError(t, err)
	require.Contains(t, string(text), `"tie_word_embeddings": false`, "the library ties nothing")
}

// What older files say, and what Python writes that is no JSON.
func TestOldConfigsLoad(t *testing.T) {
	text := `{"model_type": "nemotron_h", "hybrid_override_pattern": "*-", "vocab_size": 11, "hidden_size": 6, "num_attention_heads": 4,
		"num_key_value_heads": 2, "head_dim": 5, "intermediate_size": 7, "time_step_limit": [-Infinity, Infinity, NaN], "torch_dtype": "a \"NaN\\"}`
	want := small()
	want.Pattern, want.InitStd = "*-", 0.02
	got, err := ConfigFromHF([]byte(text), small())
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = ConfigFromHF([]byte(`{"model_type":"nemotron_h","layers_block_type":["attention","full_attention","mlp"],"vocab_size":11}`), small())
	require.NoError(t, err)
	require.Equal(t, "**-", got.Pattern)
}

// What stands in a file for depths of multi-token prediction, and when they are left aside.
func TestConfigsOfDepths(t *testing.T) {
	file := func(more string) []byte {
		return []byte(`{"model_type":"nemotron_h","layers_block_type":["mlp"],"vocab_size":11,"hidden_size":6,"num_nextn_predict_layers":` + more + `}`)
	}
	base := small()
	got, err := ConfigFromHF(file(`2`), base)
	require.NoError(t, err)
	require.Equal(t, "-", got.Pattern, "base has no factor for their loss")
	base.MTP.Factor = 1
	got, err = ConfigFromHF(file(`2`), base)
	require.NoError(t, err)
	require.Equal(t, "-/*E", got.Pattern)
	require.Equal(t, 2, got.MTP.Depths)
	got, err = ConfigFromHF(file(`1, "mtp_hybrid_override_pattern": "M-"`), base)
	require.NoError(t, err)
	require.Equal(t, "-/M-", got.Pattern)
	base.MTP.Repeated, base.MTP.Depths = true, 5
	got, err = ConfigFromHF(file(`1, "mtp_layers_block_type": ["moe", "mamba"]`), base)
	require.NoError(t, err)
	require.Equal(t, "-/EM", got.Pattern)
	require.Equal(t, 5, got.MTP.Depths)
	_, err = ConfigFromHF(file(`2`), base)
	require.EqualError(t, err, "config.json: num_nextn_predict_layers: 2: must be 1 of depths that repeat")
	_, err = ConfigFromHF(file(`1, "mtp_layers_block_type": ["rnn"]`), base)
	require.ErrorContains(t, err, `mtp_layers_block_type: "rnn" at 0`)
}

func TestConfigsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ field, value, want string }{
		{"model_type", `"llama"`, `model_type: "llama": must be nemotron_h`},
		{"layers_block_type", `["moe", "rnn"]`, `layers_block_type: "rnn" at 1: must be linear_attention, full_attention, mlp or moe`},
		{"layers_block_type", `[]`, `model.pattern: empty`},
		{"layers_block_type", `3`, `layers_block_type: number: must be a list`},
		{"use_bias", `true`, `must be false`},
		{"use_conv_bias", `false`, `use_conv_bias: false: must be true`},
		{"mamba_hidden_act", `"gelu"`, `mamba_hidden_act: "gelu": must be silu`},
		{"time_step_min", `-1`, `model.ssm.dt_min: -1`},
		{"num_nextn_predict_layers", `-1`, `num_nextn_predict_layers: -1: must be 0 or more`},
		{"mlp_hidden_act", `"silu"`, `mlp_hidden_act: "silu": must be relu2`},
		{"attention_dropout", `0.1`, `attention_dropout: 0.1: must be 0`},
		{"norm_topk_prob", `false`, `norm_topk_prob: false`},
		{"moe_shared_expert_intermediate_size", `0`, `moe_shared_expert_intermediate_size: 0: must be above 0`},
		{"moe_latent_size", `-1`, `moe_latent_size: -1: must be above 0, or null`},
		{"n_group", `0`, `n_group, topk_group: 0, 1`},
		{"topk_group", `2`, `n_group, topk_group: 1, 2`},
		{"hidden_size", `0`, `model.width: 0`},
		{"vocab_size", `1e300`, `vocab_size: number 1e300: must be a whole number`},
	} {
		text, err := ConfigToHF(small())
		require.NoError(t, err)
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(text, &fields))
		fields[c.field] = json.RawMessage(c.value)
		text, err = json.Marshal(fields)
		require.NoError(t, err)
		got, err := ConfigFromHF(text, small())
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "config.json: ")
		require.Equal(t, small(), got)
	}
	for _, c := range []struct {
		want string
		edit func(*model.Config)
	}{
		{`model.moe.router: "softmax": nemotron_h has sigmoid only`, func(c *model.Config) { c.MoE.Router = "softmax" }},
		{`model.moe.router_dtype: "bf16": nemotron_h has fp32 only`, func(c *model.Config) { c.MoE.RouterDtype = "bf16" }},
		{`model.moe.shared_hidden: 0: nemotron_h always has a shared expert`, func(c *model.Config) { c.MoE.SharedHidden = 0 }},
		{`model.moe.group_top: 1: nemotron_h scores a group by its best 2`, func(c *model.Config) { c.MoE.Groups, c.MoE.GroupsKept = 3, 2 }},
	} {
		m := small()
		c.edit(&m)
		_, err := ConfigToHF(m)
		require.EqualError(t, err, c.want)
	}
}

func TestFolders(t *testing.T) {
	m := counted(t, small(), lowp.FP32, 1)
	dir := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, SaveHF(dir, m))
	n, err := openHF(dir, small(), lowp.FP32)
	require.NoError(t, err)
	require.Equal(t, all(m), all(n))

	_, err = openHF("absent", small(), lowp.FP32)
	require.EqualError(t, err, "checkpoint absent/config.json: no such file or directory")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{"), 0o666))
	_, err = openHF(dir, small(), lowp.FP32)
	require.EqualError(t, err, "checkpoint "+dir+": config.json: unexpected end of JSON input")
	require.NoError(t, SaveHF(dir, m))
	require.NoError(t, WriteFile(filepath.Join(dir, "model.safetensors"), HFTensors(m)[1:]))
	_, err = openHF(dir, small(), lowp.FP32)
	require.ErrorContains(t, err, "model.safetensors: tensor \"backbone.embeddings.weight\": is missing")
	require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
	_, err = openHF(dir, small(), lowp.FP32)
	require.ErrorContains(t, err, "no such file or directory")
	bad := counted(t, small(), lowp.FP32, 1)
	bad.Config.MoE.Router = "softmax"
	require.ErrorContains(t, SaveHF(dir, bad), "sigmoid only")
	require.Error(t, SaveHF("file.go", m))
}

func TestFoldersOfSeveralFiles(t *testing.T) {
	m, dir := counted(t, small(), lowp.FP32, 1), t.TempDir()
	require.NoError(t, SaveHF(dir, m))
	require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
	x := HFTensors(m)
	require.NoError(t, WriteFile(filepath.Join(dir, "a.safetensors"), x[:5]))
	require.NoError(t, WriteFile(filepath.Join(dir, "b.safetensors"), x[5:]))
	index := func(text string) error {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), []byte(text), 0o666))
		n, err := openHF(dir, small(), lowp.FP32)
		if err == nil {
			require.Equal(t, all(m), all(n))
		}
		return err
	}
	require.NoError(t, index(`{"metadata": {}, "weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "a.safetensors"}}`))
	require.ErrorContains(t, index(`{"weight_map": {"x": "a.safetensors"}}`), "is missing")
	require.ErrorContains(t, index(`{"weight_map": {"x": "c.safetensors"}}`), "c.safetensors: no such file or directory")
	require.ErrorContains(t, index(`{"weight_map": {"x": "../a.safetensors"}}`), `"../a.safetensors": must be a file of the same folder`)
	require.ErrorContains(t, index(`{"weight_map": 3}`), "index.json: weight_map: number: must be an object")
	require.NoError(t, WriteFile(filepath.Join(dir, "b.safetensors"), x[4:]))
	require.ErrorContains(t, index(`{"weight_map": {"x": "b.safetensors", "y": "a.safetensors"}}`), "is there twice")
}

func FuzzConfig(f *testing.F) {
	text, err := ConfigToHF(small())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"model_type":"nemotron_h","time_step_limit":[0.0,Infinity]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := ConfigFromHF(text, small()); err == nil {
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// openHF builds the model of a nemotron_h folder with its weights, in the given format. What
// its config.json does not say is base's.
func openHF(dir string, base model.Config, format lowp.Format) (*model.Model, error) {
	c, err := ReadConfig(dir, base)
	if err != nil {
		return nil, err
	}
	m, err := model.New(c, format)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return m, LoadDir(dir, m)
}
