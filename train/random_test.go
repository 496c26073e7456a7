package train

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/model"
	"firstbit/moe"
	"firstbit/ssm"
)

// anyConfig draws a small configuration, possible or not.
func anyConfig(r *rand.Rand) Config {
	upTo := func(n int) int { return 1 + r.IntN(n) }
	maybe := func(v float64) float64 { return v * float64(r.IntN(2)) }
	one := func(words ...string) string { return words[r.IntN(len(words))] }
	c := Tiny()
	c.Seed, c.Steps, c.Batch, c.Micro, c.Seq = r.Uint64(), 1, upTo(3), upTo(2), upTo(9)
	c.Precision = one(Precisions...)
	switch c.Precision {
	case "fp8":
		c.Quant.Scaling, c.Quant.History = one(Scalings...), upTo(3)
	case "mxfp8":
		c.Quant.Rule = one(Rules...)
	}
	c.Streams = one("", "rank", "indexed")
	c.Model = model.Config{
		Pattern: letters(r, upTo(4)), Vocab: 256, Width: upTo(9), Heads: upTo(4), KVHeads: upTo(3), HeadDim: r.IntN(4), Hidden: upTo(8),
		Tied: r.IntN(2) == 0, Eps: 1e-5, InitStd: 0.3, Dropout: maybe(0.3), Recompute: r.IntN(2) == 0,
		MTP: model.MTPConfig{Depths: upTo(3), Repeated: r.IntN(2) == 0, Factor: 0.3},
		SSM: ssm.Config{Heads: upTo(4), HeadDim: upTo(4), State: upTo(4), Groups: upTo(2), Conv: upTo(5), DTMin: maybe(0.5)},
		MoE: moe.Config{Experts: upTo(8), TopK: upTo(4), Hidden: upTo(9), SharedHidden: r.IntN(5), Latent: r.IntN(4),
			Router: one("sigmoid", "softmax", "softmax_topk"), RouterDtype: one("fp32", "bf16"), Scaling: 2.5, Jitter: maybe(0.2),
			Aux: one("", "batch", "sequence"), AuxCoeff: maybe(0.01), ZCoeff: maybe(0.001),
			BiasRate: maybe(0.01), TileM: upTo(5), TileN: upTo(6), TileSub: upTo(6)},
	}
	if m := &c.Model.MoE; r.IntN(2) == 0 {
		m.Groups, m.GroupsKept, m.GroupTop = upTo(4), upTo(3), r.IntN(3)
		m.Experts = m.Groups * upTo(3)
	}
	if r.IntN(2) == 0 {
		c.Model.Pattern += "/" + letters(r, upTo(2))
	}
	return c
}

func letters(r *rand.Rand, n int) (s string) {
	for range n {
		s += string("M*-E"[r.IntN(4)])
	}
	return s
}

// spoil sets one field, whichever, to a value that is out of the way.
func spoil(r *rand.Rand, c *Config) string {
	paths := leaves(reflect.TypeFor[Config](), "")
	path := paths[r.IntN(len(paths))]
	v, err := field(reflect.ValueOf(c).Elem(), path)
	if err != nil {
		panic(err)
	}
	switch v.Kind() {
	case reflect.Int:
		v.SetInt([]int64{-1, 0, 1 << 21, math.MaxInt64, math.MinInt64}[r.IntN(5)])
	case reflect.Float64:
		v.SetFloat([]float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), 1}[r.IntN(5)])
	case reflect.String:
		v.SetString([]string{"", "/", "Q", "M/", "/M", "*/*/*", "Ω"}[r.IntN(7)])
	}
	return path
}

// leaves are the paths of all fields.
func leaves(t reflect.Type, prefix string) (paths []string) {
	for i := range t.NumField() {
		tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if f := t.Field(i).Type; f.Kind() == reflect.Struct {
			paths = append(paths, leaves(f, prefix+tag+".")...)
		} else {
			paths = append(paths, prefix+tag)
		}
	}
	return paths
}

// step runs one step; a panic is an error with its text.
func step(c Config) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	tr, err := newRun(c, device.New(device.Options{}))
	if err != nil {
		return r, err
	}
	tr.Digest = true
	return tr.Step(), nil
}

// named tells whether a refusal begins with fields of the configuration, or groups of them.
func named(err error) bool {
	names, _, ok := strings.Cut(err.Error(), ":")
	for _, name := range strings.Split(names, " × ") {
		_, e := field(reflect.ValueOf(&Config{}).Elem(), name)
		ok = ok && (e == nil || strings.Contains(e.Error(), "is a group of fields"))
	}
	return ok
}

// What passes validation runs a step, with finite numbers unless fp16 skips it, and the same bits with and without recomputation; what does not is
// refused by the name of a field. Nothing panics. Every kind of layer and option takes part.
func TestAnyConfigRunsOrIsRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 5))
	seen, refused, ran := map[string]int{}, 0, 0
	n := 400
	if *matrix {
		n = 2000
	}
	for range n {
		c := anyConfig(r)
		text, err := json.Marshal(c)
		require.NoError(t, err)
		if err := c.Validate(); err != nil {
			refused++
			require.True(t, named(err), "%v names no field", err)
			require.NotContains(t, err.Error(), "\n")
			continue
		}
		result, err := step(c)
		require.NoError(t, err, "%s", text)
		ran++
		for _, m := range result.Metrics {
			require.False(t, !result.Skipped && (math.IsNaN(m.Value) || math.IsInf(m.Value, 0)), "%s is %v: %s", m.Name, m.Value, text)
		}
		other := c
		other.Model.Recompute = !c.Model.Recompute
		again, err := step(other)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(result), fmt.Sprint(again), "%s", text) // as text, in which NaN is itself
		if count(seen, c); result.Skipped {
			require.Equal(t, scaledPrecision, c.Precision)
			seen["skipped"]++
		}
	}
	t.Logf("%d ran, %d refused: %v", ran, refused, seen)
	for _, what := range []string{"M", "*", "-", "E", "/", "groups", "latent", "dropout", "jitter", "indexed", "recompute", "tied", "repeated", "fp32", "bf16", "fp16", "skipped", "fp64",
		"fp8", "mxfp8", "nvfp4", "delayed", "floor",
		"sigmoid", "softmax", "softmax_topk", "by sequence"} {
		require.Positive(t, seen[what], what)
	}
}

func count(seen map[string]int, c Config) {
	for _, l := range c.Model.Pattern {
		seen[string(l)]++
	}
	seen[c.Precision]++
	seen[c.Quant.Scaling]++
	seen[c.Quant.Rule]++
	m, routed := c.Model, strings.Contains(c.Model.Pattern, "E")
	for what, is := range map[string]bool{"groups": routed && m.MoE.Groups > 1, "latent": routed && m.MoE.Latent > 0, "dropout": m.Dropout > 0,
		"jitter": routed && m.MoE.Jitter > 0, m.MoE.Router: routed, "by sequence": routed && m.MoE.Aux == "sequence",
		"recompute": m.Recompute, "indexed": c.Streams == "indexed" && m.Dropout > 0, "tied": m.Tied, "repeated": m.MTP.Repeated && strings.Contains(m.Pattern, "/")} {
		if is {
			seen[what]++
		}
	}
}

// A field out of the way is refused by a name, or does no harm.
func TestSpoiltConfigsDoNoHarm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	n := 1000
	if *matrix {
		n = 6000
	}
	for i := range n {
		c := Tiny()
		c.Model.Width, c.Model.Hidden, c.Seq, c.Batch, c.Steps = 8, 8, 4, 1, 1
		path := spoil(r, &c)
		if err := c.Validate(); err != nil {
			refused++
			require.True(t, named(err), "%s spoilt: %v names no field", path, err)
			continue
		}
		if i%4 == 0 && path != "data" { // a step costs more
			_, err := step(c)
			if err != nil {
				require.NotContains(t, err.Error(), "panic", "%s spoilt in %+v", path, c)
			}
		}
	}
	require.Greater(t, refused, n/3)
}

// Few weights can still need states that no machine holds.
func TestStatesOfScansAreBounded(t *testing.T) {
	c := Tiny()
	c.Model.Pattern, c.Model.Width, c.Model.Heads, c.Model.KVHeads = "M", 1, 1, 1
	c.Model.SSM.Heads, c.Model.SSM.HeadDim, c.Model.SSM.Groups = 64, 64, 1
	require.NoError(t, c.Validate())
	c.Model.SSM.Heads, c.Model.SSM.HeadDim, c.Model.SSM.State = 4096, 4096, 4096
	require.ErrorContains(t, c.Validate(), "activations: must be at most")
}
