package train

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/state"
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
	tr, err := newRun(c, device.New(device.Options{}))
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
	for _, bad := range []string{`{"stepz":1}`, `{`, `{"steps":"many"}`, `{} {}`, `[]`, `{}}`, `{"steps":2,"steps":3}`, `{"Steps":2}`, `{"model":{"WIDTH":64}}`, `{"steps":null}`} {
		require.Error(t, c.Decode([]byte(bad)), bad)
		require.Equal(t, before, c, "a refused text changes nothing")
	}
	c.Quant.High = []string{"*.attn.*"}
	require.Error(t, c.Decode([]byte(`{"quant": {"high": ["*"]}, "stepz": 1}`)))
	require.Equal(t, []string{"*.attn.*"}, c.Quant.High)
	require.Error(t, c.Set("steps=null"), "which encoding/json takes for nothing")
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
		tr, err := newRun(c, device.New(device.Options{}))
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
	tr, err := newRun(c, device.New(device.Options{}))
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
	tr, err := newRun(c, device.New(device.Options{}))
	require.NoError(t, err)
	tr.Digest = true
	before := tr.Step().State
	seen := map[string]bool{}
	for _, s := range tr.States(state.Role.Decides) {
		require.False(t, seen[s.Name], s.Name)
		seen[s.Name] = true
	}
	require.True(t, seen["embed.w.master"] && seen["layers.2.moe.router.bias"] && seen["data.consumed"] && seen["norm.w.v"])
	require.Len(t, before, 32)
}

// The state of every stream that is drawn from decides the next step, and is part of its fingerprint.
func TestStreamsAreState(t *testing.T) {
	streams := func(dropout, jitter float64) (names []string) {
		c := Tiny()
		c.Model.Dropout, c.Model.MoE.Jitter = dropout, jitter
		tr, err := newRun(c, device.New(device.Options{}))
		require.NoError(t, err)
		for _, s := range tr.States(state.Role.Decides) {
			if s.Role == state.RandomStream {
				names = append(names, s.Name)
				require.Equal(t, []int{4}, s.Shape())
			}
		}
		return names
	}
	require.Empty(t, streams(0, 0))
	require.Equal(t, []string{"rng.dropout.tp"}, streams(0.1, 0))
	require.Equal(t, []string{"rng.jitter.ep"}, streams(0, 0.1))
	require.Equal(t, []string{"rng.dropout.tp", "rng.jitter.ep"}, streams(0.1, 0.1))

	c := Tiny()
	c.Model.Dropout = 0.1
	tr, err := newRun(c, device.New(device.Options{}))
	require.NoError(t, err)
	digest := func() string {
		var d [4]int32
		tr.fingerprint(d[:])
		return fmt.Sprint(d)
	}
	for _, s := range tr.Model.Streams() {
		for word := range s.State.I32() {
			for _, bit := range []int{0, 31} {
				before := digest()
				s.State.I32()[word] ^= 1 << bit
				require.NotEqual(t, before, digest())
				s.State.I32()[word] ^= 1 << bit
				require.Equal(t, before, digest())
			}
		}
	}
}

// Without dropout and jitter a step draws nothing.
func TestNothingIsDrawnWithoutNeed(t *testing.T) {
	draws := func(dropout, jitter float64) (n int) {
		c := Tiny()
		c.Model.Dropout, c.Model.MoE.Jitter = dropout, jitter
		tr, err := newRun(c, device.New(device.Options{}, func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				if c.Kind == device.Draw && c.ID.Phase != device.Init {
					n++
				}
				next(c)
			}
		}))
		require.NoError(t, err)
		tr.Step()
		return n
	}
	require.Zero(t, draws(0, 0))
	require.Equal(t, 7, draws(0.1, 0), "one a block, of the main layers and the depth")
	require.Equal(t, 3, draws(0, 0.1), "one a router")
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

// Whichever state holds a NaN or an infinity, a step says so.
func TestEveryStateThatIsNotFiniteIsSeen(t *testing.T) {
	c := Pico()
	c.Precision, c.Quant.Scaling = "fp8", "delayed"
	tr, err := newRun(c, device.New(device.Options{}))
	require.NoError(t, err)
	require.Empty(t, tr.Step().NonFinite)
	seen := map[string]bool{}
	for _, s := range tr.States(state.Role.Decides) {
		if !s.Format.Float() {
			continue
		}
		at := s.Len() - 1
		was := s.Value(at)
		for _, v := range []float64{math.NaN(), math.Inf(-1)} {
			s.Set(at, v)
			require.Equal(t, fmt.Sprintf("%s[%d]", s.Name, at), tr.nonFinite())
		}
		s.Set(at, was)
		require.Empty(t, tr.nonFinite(), s.Name)
		seen[s.Name[strings.LastIndex(s.Name, "."):]] = true
	}
	for _, kind := range []string{".m", ".v", ".master", ".bias", ".scale", ".history"} {
		require.True(t, seen[kind], kind)
	}
	tr.States(func(r state.Role) bool { return r == state.SecondMoment })[0].Set(0, math.Inf(1))
	require.NotEmpty(t, tr.Step().NonFinite)
}

// The names of metrics are known before a step has any.
func TestMetricNames(t *testing.T) {
	for i, pattern := range []string{"*-", "*E", "-/*", "-/*E", "E-/*E"} {
		c := Pico()
		c.Model.Pattern, c.Precision = pattern, []string{"fp32", "fp16"}[i%2]
		run, err := newRun(c, device.New(device.Options{}))
		require.NoError(t, err)
		var names []string
		for _, m := range run.Step().Metrics {
			names = append(names, m.Name)
		}
		require.Equal(t, c.MetricNames(), names, pattern)
	}
}

// newRun builds a run of one rank at its beginning, weights drawn, on the device.
func newRun(c Config, dev *device.Device) (*Trainer, error) {
	corpus, err := c.Corpus()
	if err != nil {
		return nil, err
	}
	return NewRank(c, corpus, dev, parallel.NewWorld(parallel.Layout{DP: 1}, 1).Rank(0), false)
}
