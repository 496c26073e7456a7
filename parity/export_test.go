package parity

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/model"
	"firstbit/moe"
	"firstbit/rng"
	"firstbit/ssm"
)

var exportDir = flag.String("export", "", "a folder for checkpoints that transformers can load")

// exported are models that no reference file knows.
func exported() map[string]model.Config {
	c := model.Config{
		Pattern: "ME*-ME", Vocab: 31, Width: 12, Heads: 6, KVHeads: 3, HeadDim: 5, Hidden: 17, Eps: 3e-5, InitStd: 0.4,
		SSM: ssm.Config{Heads: 4, HeadDim: 3, State: 6, Groups: 2, Conv: 3, DTMin: 0.02},
		MoE: moe.Config{Experts: 12, TopK: 4, Hidden: 7, SharedHidden: 9, Router: "sigmoid", RouterDtype: "fp32", Scaling: 1.5,
			Groups: 4, GroupsKept: 2, GroupTop: 2, TileM: 4, TileN: 8, TileSub: 3},
	}
	latent := c
	latent.MoE.Latent, latent.MoE.Groups, latent.MoE.GroupsKept, latent.MoE.GroupTop = 5, 0, 0, 0
	latent.Pattern, latent.MTP = "EM-/*E", model.MTPConfig{Depths: 2, Factor: 0.3} // whose depths the library leaves aside
	tied := c
	tied.Pattern, tied.Tied, tied.HeadDim, tied.Heads, tied.KVHeads = "*-", true, 0, 3, 1
	return map[string]model.Config{"groups": c, "latent": latent, "tied": tied}
}

// Each model is drawn, written as a nemotron_h folder, and read back with the same outputs.
// With -export the folders stay, for scripts/parity.sh to load them in transformers.
func TestExport(t *testing.T) {
	dir := *exportDir
	if dir == "" {
		dir = t.TempDir()
	}
	for name, c := range exported() { // order reaches no result
		m, err := model.New(c, lowp.FP64)
		require.NoError(t, err)
		dev := device.New(device.Options{})
		dev.At(0, 0, device.Init)
		m.Init(dev, func(name string) *rng.Stream { return rng.New(1, "export."+name) })
		for _, s := range tensors(m) { // float32 holds them, as it does what a run has
			for i := range s.Len() {
				s.Set(i, float64(float32(s.Value(i))))
			}
		}
		to := filepath.Join(dir, name)
		require.NoError(t, checkpoint.SaveHF(to, m))
		tokens := device.NewTensor(lowp.INT32, 2, 19)
		for i := range tokens.Len() {
			tokens.I32()[i] = int32(i * i % c.Vocab)
		}
		dev.At(1, 0, device.Fwd)
		m.Forward(dev, tokens, tokens)
		require.NoError(t, checkpoint.WriteFile(filepath.Join(to, "outputs.safetensors"), []checkpoint.Tensor{
			checkpoint.Of("tokens", tokens), checkpoint.Of("logits", m.Head.Logits())}))

		like := base()
		like.MTP = c.MTP
		read, err := checkpoint.ReadConfig(to, like)
		require.NoError(t, err)
		back, err := model.New(read, lowp.FP64)
		require.NoError(t, err)
		require.NoError(t, checkpoint.LoadDir(to, back))
		require.Len(t, back.Params(), len(m.Params())+tiedHead(c))
		dev = device.New(device.Options{})
		dev.At(1, 0, device.Fwd)
		back.Forward(dev, tokens, tokens)
		require.Equal(t, of("", m.Head.Logits()), of("", back.Head.Logits()), name)
	}
}

// tiedHead is one where the head is the embedding, which nemotron_h keeps apart.
func tiedHead(c model.Config) int {
	if c.Tied {
		return 1
	}
	return 0
}

// tensors are what a checkpoint holds, with biases drawn so that they are something.
func tensors(m *model.Model) (t []*device.Tensor) {
	for _, p := range m.Params() {
		t = append(t, p.W)
	}
	for _, r := range m.Routers() {
		draw := rng.New(1, "export."+r.Scope).Norm
		for i := range r.Bias.Len() {
			r.Bias.Set(i, 0.1*draw())
		}
		t = append(t, r.Bias)
	}
	return t
}
