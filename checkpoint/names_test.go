package checkpoint

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
	"firstbit/model"
	"firstbit/moe"
	"firstbit/ssm"
)

// small is a network in which every extent is its own, so that no two can be confused.
func small() model.Config {
	return model.Config{
		Pattern: "*-EM", Vocab: 11, Width: 6, Heads: 4, KVHeads: 2, HeadDim: 5, Hidden: 7, Eps: 1e-5, InitStd: 0.5,
		SSM: ssm.Config{Heads: 4, HeadDim: 3, State: 2, Groups: 2, Conv: 4, DTMin: 0.25},
		MoE: moe.Config{Experts: 3, TopK: 2, Hidden: 10, SharedHidden: 9, Router: "sigmoid", RouterDtype: "fp32",
			Scaling: 2.5, AuxCoeff: 0.7, ZCoeff: 0.1, TileM: 2, TileN: 4, TileSub: 3},
	}
}

// counted is a model whose every value is its own; off shifts them all.
func counted(t *testing.T, c model.Config, f lowp.Format, off int) *model.Model {
	m, err := model.New(c, f)
	require.NoError(t, err)
	n := off
	for _, s := range slots(m) {
		x := make([]float64, s.tensor.Len())
		for i := range x {
			x[i], n = float64(n), n+1
		}
		s.set(x)
	}
	return m
}

func all(m *model.Model) (x []float64) {
	for _, s := range slots(m) {
		x = append(x, values(s.tensor)...)
	}
	for _, p := range m.Params() {
		x = append(x, values(p.W)...)
	}
	return x
}

func TestWeightsRoundTrip(t *testing.T) {
	tied, latent, mtp := small(), small(), small()
	tied.Tied, latent.MoE.Latent = true, 4
	mtp.Pattern, mtp.MTP = "*E/M*E", model.MTPConfig{Depths: 2, Factor: 1}
	repeated := mtp
	repeated.MTP.Repeated = true
	for _, c := range []model.Config{small(), tied, latent, mtp, repeated} {
		for _, f := range []lowp.Format{lowp.FP64, lowp.FP32, lowp.BF16} {
			m := counted(t, c, f, 1)
			path := filepath.Join(t.TempDir(), "x.safetensors")
			require.NoError(t, WriteFile(path, HFTensors(m)))
			file, err := ReadFile(path, roomy)
			require.NoError(t, err)
			n := counted(t, c, f, 5000)
			require.NotEqual(t, all(m), all(n), "negative control")
			require.NoError(t, LoadHF(n, file))
			require.Equal(t, all(m), all(n))
		}
	}
}

// One element of each layout, by the definitions y = x·W of ours and y = W·x of theirs.
func TestHFLayouts(t *testing.T) {
	m := counted(t, small(), lowp.FP32, 0)
	b, err := Encode(HFTensors(m))
	require.NoError(t, err)
	f, err := Decode(b, roomy.Header)
	require.NoError(t, err)
	at := func(name string, shape []int, i int) float64 {
		x, ok := f.Tensor(name)
		require.True(t, ok, name)
		require.Equal(t, shape, x.Shape, name)
		v, err := x.Values()
		require.NoError(t, err)
		return v[i]
	}
	params := m.Params()
	ours := func(name string, i int) float64 {
		for _, p := range params {
			if p.Name == name {
				return p.W.Value(i)
			}
		}
		t.Fatal(name)
		return 0
	}
	require.Equal(t, ours("embed.w", 8), at("backbone.embeddings.weight", []int{11, 6}, 8))
	require.Equal(t, ours("head.w", 8), at("lm_head.weight", []int{11, 6}, 8))
	require.Equal(t, ours("norm.w", 2), at("backbone.norm_f.weight", []int{6}, 2))
	require.Equal(t, ours("layers.0.attn.wk", 3*10+7), at("backbone.layers.0.mixer.k_proj.weight", []int{10, 6}, 7*6+3))
	require.Equal(t, ours("layers.1.mlp.w2", 5*6+4), at("backbone.layers.1.mixer.down_proj.weight", []int{6, 7}, 4*7+5))
	require.Equal(t, ours("layers.2.moe.router.w", 2*6+4), at("backbone.layers.2.mixer.gate.weight", []int{3, 6}, 2*6+4))
	require.Equal(t, m.Routers()[0].Bias.Value(1), at("backbone.layers.2.mixer.gate.e_score_correction_bias", []int{3}, 1))
	require.Equal(t, ours("layers.2.moe.experts.w1", (2*6+4)*10+9), at("backbone.layers.2.mixer.experts.2.up_proj.weight", []int{10, 6}, 9*6+4))
	// Two groups, each with 6 columns of z, 6 of x, 2 of b, 2 of c and 2 of dt, which theirs has kind by kind.
	for our, their := range map[int]int{0: 0, 5: 5, 6: 12, 13: 25, 15: 29, 17: 33, 18: 6, 24: 18, 31: 27, 33: 31, 34: 34, 35: 35} { // order reaches no result
		require.Equal(t, ours("layers.3.ssm.in_proj", 4*36+our), at("backbone.layers.3.mixer.in_proj.weight", []int{36, 6}, their*6+4), our)
	}
	for our, their := range map[int]int{0: 0, 7: 13, 9: 17, 10: 6, 17: 15, 19: 19} { // order reaches no result
		require.Equal(t, ours("layers.3.ssm.conv.w", our*4+3), at("backbone.layers.3.mixer.conv1d.weight", []int{20, 1, 4}, their*4+3), our)
		require.Equal(t, ours("layers.3.ssm.conv.b", our), at("backbone.layers.3.mixer.conv1d.bias", []int{20}, their), our)
	}
	require.Equal(t, ours("layers.3.ssm.a_log", 2), at("backbone.layers.3.mixer.A_log", []int{4}, 2))
	require.Equal(t, ours("layers.2.moe.shared.w1", 4*9+8), at("backbone.layers.2.mixer.shared_experts.up_proj.weight", []int{9, 6}, 8*6+4))
}

// The library's own modules say "model." and stack the experts.
func TestStackedExpertsLoad(t *testing.T) {
	m := counted(t, small(), lowp.FP32, 1)
	var tensors []Tensor
	stacked := map[string]Tensor{}
	for _, x := range HFTensors(m) {
		name := x.Name
		if i := len("backbone."); name[:i] == "backbone." {
			name = "model." + name[i:]
		}
		for _, part := range []string{"up_proj", "down_proj"} {
			for e := range 3 {
				if name == expertName("model.layers.2.mixer.experts.*."+part+".weight", e) {
					s := stacked[part]
					s.Name, s.format, s.data = "model.layers.2.mixer.experts."+part, x.format, append(s.data, x.data...)
					s.Shape = append([]int{e + 1}, x.Shape...)
					stacked[part], name = s, ""
				}
			}
		}
		if x.Name = name; name != "" {
			tensors = append(tensors, x)
		}
	}
	tensors = append(tensors, stacked["up_proj"], stacked["down_proj"])
	n := counted(t, small(), lowp.FP32, 5000)
	require.NoError(t, LoadHF(n, &File{tensors}))
	require.Equal(t, all(m), all(n))
}

func TestLoadRefusesAndChangesNothing(t *testing.T) {
	m := counted(t, small(), lowp.FP32, 1)
	change := func(edit func([]Tensor) []Tensor) error {
		n := counted(t, small(), lowp.FP32, 5000)
		before := all(n)
		err := LoadHF(n, &File{edit(HFTensors(m))})
		require.Equal(t, before, all(n))
		return err
	}
	index := func(x []Tensor, name string) int {
		i := slices.IndexFunc(x, func(t Tensor) bool { return t.Name == name })
		require.NotEqual(t, -1, i)
		return i
	}
	for _, c := range []struct {
		want string
		edit func([]Tensor) []Tensor
	}{
		{`tensor "backbone.embeddings.weight": is missing: the model needs it as [11 6]`, func(x []Tensor) []Tensor { return x[1:] }},
		{`tensor "backbone.more": the model has no place for it`, func(x []Tensor) []Tensor {
			y := x[0]
			y.Name = "backbone.more"
			return append(x, y)
		}},
		{`tensor "model.embeddings.weight": is there twice, also as "backbone.embeddings.weight"`, func(x []Tensor) []Tensor {
			y := x[0]
			y.Name = "model.embeddings.weight"
			return append(x, y)
		}},
		{`tensor "backbone.embeddings.weight": shape [6 11]: must be [11 6]`, func(x []Tensor) []Tensor {
			x[0].Shape = []int{6, 11}
			return x
		}},
		{`tensor "backbone.layers.2.mixer.experts.1.up_proj.weight": is missing: the model needs it as [10 6]`, func(x []Tensor) []Tensor {
			i := index(x, "backbone.layers.2.mixer.experts.1.up_proj.weight")
			return slices.Delete(x, i, i+1)
		}},
		{`tensor "backbone.layers.2.mixer.experts.3.up_proj.weight": the model has no place for it`, func(x []Tensor) []Tensor {
			y := x[index(x, "backbone.layers.2.mixer.experts.1.up_proj.weight")]
			y.Name = "backbone.layers.2.mixer.experts.3.up_proj.weight"
			return append(x, y)
		}},
	} {
		require.EqualError(t, change(c.edit), c.want)
	}

	c := small()
	c.Tied = true
	tied := counted(t, c, lowp.FP32, 1)
	x := HFTensors(tied)
	i := index(x, "lm_head.weight")
	x[i].data = slices.Clone(x[i].data)
	x[i].data[0]++
	require.EqualError(t, LoadHF(tied, &File{x}), `tensor "lm_head.weight": differs from the embedding: the model's head is tied to it`)
}

// What the library leaves aside, a model without multi-token prediction leaves aside.
func TestForeignDepthsAreLeftAside(t *testing.T) {
	m := counted(t, small(), lowp.FP32, 1)
	x := HFTensors(m)
	y := x[0]
	y.Name = "mtp.layers.0.enorm.weight"
	require.NoError(t, LoadHF(m, &File{append(x, y)}))
}

func TestHFNamesOfDepths(t *testing.T) {
	for ours, theirs := range map[string]string{ // order reaches no result
		"mtp.0.enorm.w":                 "mtp.layers.0.enorm.weight",
		"mtp.1.hnorm.w":                 "mtp.layers.2.hnorm.weight",
		"mtp.1.proj":                    "mtp.layers.2.eh_proj.weight",
		"mtp.1.norm.w":                  "mtp.layers.3.final_layernorm.weight",
		"mtp.1.layers.1.norm.w":         "mtp.layers.3.norm.weight",
		"mtp.0.layers.0.attn.wq":        "mtp.layers.0.mixer.q_proj.weight",
		"mtp.1.layers.1.moe.experts.w1": "mtp.layers.3.mixer.experts.*.up_proj.weight",
	} {
		got, _ := hfName(ours, 2)
		require.Equal(t, theirs, got, ours)
	}
	require.Panics(t, func() { hfName("layers.0.attn.wx", 0) })
}
