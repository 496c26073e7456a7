package model

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/rng"
)

func names(m *Model) (n []string) {
	for _, p := range m.Params() {
		n = append(n, p.Name)
	}
	return n
}

// Parameters are listed in forward order, each once; a tied head has none of its own; Config counts them.
func TestParams(t *testing.T) {
	c := small("*-E")
	c.MoE.SharedHidden = 4
	m, err := New(c, lowp.FP32)
	require.NoError(t, err)
	want := []string{"embed.w",
		"layers.0.norm.w", "layers.0.attn.wq", "layers.0.attn.wk", "layers.0.attn.wv", "layers.0.attn.wo",
		"layers.1.norm.w", "layers.1.mlp.w1", "layers.1.mlp.w2",
		"layers.2.norm.w", "layers.2.moe.router.w", "layers.2.moe.experts.w1", "layers.2.moe.experts.w2", "layers.2.moe.shared.w1", "layers.2.moe.shared.w2",
		"norm.w", "head.w"}
	require.Equal(t, want, names(m))
	require.NotSame(t, m.Embed.W, m.Head.W)
	require.Equal(t, c.Params(), count(m))

	c.Tied = true
	m, err = New(c, lowp.FP32)
	require.NoError(t, err)
	require.Equal(t, want[:len(want)-1], names(m))
	require.Same(t, m.Embed.W, m.Head.W)
	require.Equal(t, c.Params(), count(m))

	for _, p := range m.Params() { // decay but for norms
		require.Equal(t, p.W.Format == lowp.FP32 && len(p.W.Shape()) > 1, p.Decay, p.Name)
	}
	require.Len(t, m.Routers(), 1)
	require.Equal(t, "layers.2.moe.router", m.Routers()[0].Scope)
}

func count(m *Model) (n int64) {
	for _, p := range m.Params() {
		n += int64(p.W.Len())
	}
	return n
}

// initial is a model with weights drawn from streams named after a seed.
func initial(t *testing.T, c Config, f lowp.Format, seed uint64) *Model {
	m, err := New(c, f)
	require.NoError(t, err)
	dev := device.New(device.Options{})
	dev.At(0, 0, device.Init)
	m.Init(dev, func(name string) *rng.Stream { return rng.New(seed, name) })
	return m
}

// No weight depends on which others there are: a layer more or another head changes none of the rest.
func TestInitDependsOnTheNameAlone(t *testing.T) {
	a, b := initial(t, small("*-"), lowp.FP32, 1), initial(t, func() Config { c := small("*-"); c.Tied = true; return c }(), lowp.FP32, 1)
	other := map[string]*nn.Param{}
	for _, p := range b.Params() {
		other[p.Name] = p
	}
	for _, p := range a.Params() {
		if q := other[p.Name]; q != nil {
			require.Equal(t, p.W.F32(), q.W.F32(), p.Name)
		}
	}
	require.NotEqual(t, a.Params()[0].W.F32(), initial(t, small("*-"), lowp.FP32, 2).Params()[0].W.F32(), "negative control: another seed")
}

// N(0, init_std²), what writes to the residual divided by √(2L), norms one; bf16 weights are rounded masters.
func TestInitScale(t *testing.T) {
	c := small("*-")
	c.Width, c.Hidden, c.Vocab, c.InitStd = 64, 96, 128, 0.5
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64} {
		for _, p := range initial(t, c, f, 3).Params() {
			sum := 0.0
			for i := range p.W.Len() {
				sum += p.Master.Value(i) * p.Master.Value(i)
				if f == lowp.BF16 {
					require.Equal(t, lowp.BF16.Round(p.Master.F32()[i]), p.W.F32()[i])
				}
			}
			want := 0.5
			switch {
			case !p.Decay:
				want = 1
			case p.Name == "layers.0.attn.wo" || p.Name == "layers.1.mlp.w2":
				want = 0.25 // √(2·2) = 2
			}
			require.InEpsilon(t, want, math.Sqrt(sum/float64(p.W.Len())), 0.07, "%s %s", p.Name, f)
		}
	}
}

// With equal logits every token costs ln V; what is left out costs nothing; the loss is a sum over tokens.
func TestLossOfAnIndifferentModel(t *testing.T) {
	b := newBench(t, small("-"), lowp.FP64)
	for i := range b.Head.W.W.Len() {
		b.Head.W.W.Set(i, 0)
	}
	b.loss()
	b.step++
	b.dev.At(b.step, 0, device.Fwd)
	lm := b.Forward(b.dev, b.tokens, b.targets).LM.Value(0)
	require.InDelta(t, 9*math.Log(11), lm, 1e-12, "ten tokens, one of them left out")
}

// Causal through the whole network: a later token reaches no earlier one.
func TestModelIsCausal(t *testing.T) {
	b := newBench(t, small("*-*"), lowp.FP64)
	var logits []float64
	b.after = func(c *device.Call) {
		if c.Label == "logits" {
			logits = append([]float64(nil), c.Out[0].F64()...)
		}
	}
	b.loss()
	before := logits
	b.tokens.I32()[3] = (b.tokens.I32()[3] + 1) % 11 // position 3 of the first sequence
	b.loss()
	for row := range 10 {
		same := row < 3 || row >= 5
		require.Equal(t, same, equal(before[row*11:][:11], logits[row*11:][:11]), "row %d", row)
	}
}

func equal(a, b []float64) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Reduce adds in the order given.
func TestReduceAddsInOrder(t *testing.T) {
	dev := device.New(device.Options{})
	sum := func(step int, values ...float64) float64 {
		dev.At(step, 0, device.Fwd)
		var parts []*device.Tensor
		for _, v := range values {
			p := device.NewTensor(lowp.FP32, 1)
			p.Set(0, v)
			parts = append(parts, p)
		}
		return Reduce(dev, "total", parts, 0.5, nil, lowp.FP32).Value(0)
	}
	require.Equal(t, 0.0, sum(1, 1e8, 1, -1e8))
	require.Equal(t, 0.5, sum(2, 1e8, -1e8, 1), "negative control")
}

// Layers past the table of names have theirs too.
func TestDeepModel(t *testing.T) {
	pattern := ""
	for range 70 {
		pattern += "-"
	}
	c := small(pattern)
	b := newBench(t, c, lowp.FP32)
	b.forwardBackward()
	require.Equal(t, "layers.69", layerScopes.At(69))
	for i := range 70 {
		require.Equal(t, "layers."+strconv.Itoa(i)+".mlp.w2", b.Params()[3*(i+1)].Name)
	}
}

// Each refusal names its field.
func TestValidate(t *testing.T) {
	require.NoError(t, small("*-E").Validate())
	for want, change := range map[string]func(*Config){
		"model.pattern: empty":           func(c *Config) { c.Pattern = "" },
		`model.pattern: "/E": must`:      func(c *Config) { c.Pattern = "/E" },
		`model.pattern: "*-/": nothing`:  func(c *Config) { c.Pattern = "*-/" },
		`unknown letter '/' at 3`:        func(c *Config) { c.Pattern = "*/-/E" },
		`unknown letter '|' at 4`:        func(c *Config) { c.Pattern = "*/-E|" },
		`"*||-": a stage without`:        func(c *Config) { c.Pattern = "*||-" },
		`"|*-": a stage without`:         func(c *Config) { c.Pattern = "|*-" },
		`"*-|/E": a stage without`:       func(c *Config) { c.Pattern = "*-|/E" },
		"model.mtp.depths: 0":            func(c *Config) { c.Pattern, c.MTP.Depths = "*/-", 0 },
		"model.mtp.factor: 0":            func(c *Config) { c.Pattern, c.MTP.Factor = "*/-", 0 },
		"model.dropout: 1":               func(c *Config) { c.Dropout = 1 },
		"model.moe.jitter: 1":            func(c *Config) { c.MoE.Jitter = 1 },
		"model.ssm.groups: 3":            func(c *Config) { c.Pattern, c.SSM.Groups = "M", 3 },
		"model.ssm.state: 0":             func(c *Config) { c.Pattern, c.SSM.State = "M", 0 },
		"model.ssm.dt_min: -1":           func(c *Config) { c.Pattern, c.SSM.DTMin = "M", -1 },
		`model.pattern: unknown letter`:  func(c *Config) { c.Pattern = "*Q" },
		"model.vocab":                    func(c *Config) { c.Vocab = 0 },
		"model.width":                    func(c *Config) { c.Width = -1 },
		"model.heads":                    func(c *Config) { c.HeadDim, c.Width = 0, 6 },
		"model.kv_heads: 3: must divide": func(c *Config) { c.KVHeads = 3 },
		"model.hidden":                   func(c *Config) { c.Hidden = 1 << 21 },
		"model.head_dim":                 func(c *Config) { c.HeadDim = -2 },
		"model.eps":                      func(c *Config) { c.Eps = 0 },
		"model.init_std":                 func(c *Config) { c.InitStd = 0 },
		"model.moe.top_k: 9":             func(c *Config) { c.MoE.TopK = 9 },
	} {
		c := small("*-E")
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
		_, err := New(c, lowp.FP32)
		require.Error(t, err)
	}
}
