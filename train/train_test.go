package train

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
)

func TestConfigRoundTripsAndRefusesUnknownFields(t *testing.T) {
	for _, name := range PresetNames() {
		c, err := Preset(name)
		require.NoError(t, err)
		require.NoError(t, c.Validate())
		text, err := json.Marshal(c)
		require.NoError(t, err)
		var d Config
		require.NoError(t, d.Decode(text))
		require.Equal(t, c, d)
	}
	c := Tiny()
	tr, err := New(c, device.New(device.Options{}))
	require.NoError(t, err)
	n := int64(0)
	for _, p := range tr.Model.Params() {
		n += int64(p.W.Len())
	}
	require.Equal(t, n, c.Model.Params())
	require.NoError(t, c.Decode([]byte(`{"model": {"width": 64}}`)))
	require.Equal(t, 64, c.Model.Width)
	require.Equal(t, Tiny().Model.Vocab, c.Model.Vocab, "what is not named keeps its value")
	before := c
	for _, bad := range []string{`{"stepz":1}`, `{`, `{"steps":"many"}`, `{} {}`, `[]`} {
		require.Error(t, c.Decode([]byte(bad)), bad)
		require.Equal(t, before, c, "a refused text changes nothing")
	}
	require.NoError(t, c.Set("model.moe.top_k=3"))
	require.NoError(t, c.Set("model.pattern=*-"))
	require.NoError(t, c.Set("model.tied=true"))
	require.Equal(t, 3, c.Model.MoE.TopK)
	require.True(t, c.Model.Tied)
}

// With microbatches the gradient is that of the whole batch: the same samples, the same loss up to rounding.
func TestMicrobatchesAreTheBatch(t *testing.T) {
	step := func(batch, micro int) Result {
		c := Tiny()
		c.Model.Pattern, c.Precision = "*-", "fp64"
		c.Batch, c.Micro = batch, micro
		tr, err := New(c, device.New(device.Options{}))
		require.NoError(t, err)
		tr.Step()
		return tr.Step()
	}
	whole, split := step(4, 1), step(1, 4)
	for i := range whole.Metrics {
		require.InEpsilon(t, whole.Metrics[i].Value, split.Metrics[i].Value, 1e-10, whole.Metrics[i].Name)
	}
	require.NotEqual(t, whole.Metrics[0].Bits, step(2, 1).Metrics[0].Bits, "the comparison must be able to fail")
}

// The corpus is learnable, and experts divide it.
func TestTinyLearns(t *testing.T) {
	c := Tiny()
	tr, err := New(c, device.New(device.Options{}))
	require.NoError(t, err)
	first, last := tr.Step(), Result{}
	for range c.Steps - 1 {
		last = tr.Step()
	}
	require.Equal(t, "lm_loss", last.Metrics[1].Name)
	require.Less(t, last.Metrics[1].Value, 0.85*tr.Corpus.Unigram())
	require.Greater(t, first.Metrics[0].Value, 5.0)
	for _, r := range tr.Model.Routers() {
		moved := false
		for _, b := range r.Bias.F32() {
			moved = moved || b != 0
		}
		require.True(t, moved, "the expert bias follows the load")
	}
}

func TestStatesAreAllThatDecides(t *testing.T) {
	c := Tiny()
	c.Precision = "bf16"
	tr, err := New(c, device.New(device.Options{}))
	require.NoError(t, err)
	tr.Digest = true
	before := tr.Step().State
	seen := map[string]bool{}
	for _, s := range tr.States() {
		require.False(t, seen[s.Name], s.Name)
		seen[s.Name] = true
	}
	require.True(t, seen["embed.w.master"] && seen["layers.2.moe.router.bias"] && seen["data.consumed"] && seen["norm.w.v"])
	require.Len(t, before, 32)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"model": {"width": 64}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := Tiny()
		if c.Decode(b) == nil {
			_ = c.Validate()
		}
	})
}

func FuzzSet(f *testing.F) {
	f.Add("model.width=64")
	f.Fuzz(func(t *testing.T, s string) {
		c := Tiny()
		if c.Set(s) == nil {
			_ = c.Validate()
		}
	})
}
