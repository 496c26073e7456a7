package train

import (
	"fmt"
	"sort"

	"firstbit/model"
	"firstbit/moe"
	"firstbit/optim"
	"firstbit/spell"
	"firstbit/ssm"
)

// Presets are the named configurations.
var presets = map[string]func() Config{"tiny": Tiny, "small": Small, "gpt": GPT, "pico": Pico}

// PresetNames lists the presets, sorted.
func PresetNames() []string {
	var names []string
	for n := range presets { // sorted below
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// Preset returns the configuration of that name.
func Preset(name string) (Config, error) {
	if p := presets[name]; p != nil {
		return p(), nil
	}
	return Config{}, fmt.Errorf("preset %q: %s", name, spell.OneOf(name, PresetNames()))
}

func base() Config {
	return Config{
		Seed: 1, Steps: 50, Batch: 4, Micro: 1, Seq: 32, Precision: "fp32", Quant: Quant{Scaling: "current", History: 16, Rule: "up", High: []string{}},
		Model: model.Config{
			Pattern: "M*E-E/*E", Vocab: 256, Width: 32, Heads: 4, KVHeads: 2, Hidden: 64, Eps: 1e-5, InitStd: 0.08,
			MTP: model.MTPConfig{Depths: 1, Factor: 0.3},
			SSM: ssm.Config{Heads: 4, HeadDim: 16, State: 16, Groups: 2, Conv: 4},
			MoE: moe.Config{Experts: 8, TopK: 2, Hidden: 64, SharedHidden: 32, Router: "sigmoid", RouterDtype: "fp32",
				Scaling: 2.5, AuxCoeff: 1e-2, ZCoeff: 1e-3, BiasRate: 1e-3, TileM: 16, TileN: 16, TileSub: 4},
		},
		Optim:   optim.Config{LR: 5e-3, MinLR: 5e-4, Warmup: 5, Decay: "cosine", Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Weight: 0.1, Clip: 1, WSDDecay: "linear", LossScale: optim.DefaultLossScale},
		Cluster: Cluster{RanksPerNode: 4, Bucket: 1 << 14},
	}
}

// Tiny is what the catalog's causes are shown on: a step takes milliseconds.
func Tiny() Config { return base() }

// Small is the whole hybrid, and learns real text in a minute.
func Small() Config {
	c := base()
	c.Steps, c.Batch, c.Seq = 300, 8, 64
	c.Model.Pattern, c.Model.Width, c.Model.Hidden, c.Model.SSM.Heads = "M*E-/*E", 64, 256, 8
	c.Model.MoE.Hidden, c.Model.MoE.SharedHidden, c.Model.MoE.TileN, c.Model.MoE.TileSub = 128, 64, 32, 8
	c.Optim.Warmup = 20
	return c
}

// Pico is for thousands of ranks, one sequence each.
func Pico() Config {
	c := base()
	c.Steps, c.Batch, c.Seq = 10, 1, 16
	m := &c.Model
	m.Pattern, m.Width, m.Hidden, m.Tied = "M*E-", 16, 96, true
	m.SSM.Heads, m.SSM.HeadDim, m.SSM.State, m.SSM.Groups = 2, 8, 8, 1
	m.MoE.Hidden, m.MoE.SharedHidden = 32, 16
	return c
}

// GPT is the shape that the cost of a step is measured on: 4 blocks of attention and MLP.
func GPT() Config {
	c := base()
	c.Steps, c.Batch, c.Seq = 20, 8, 64
	c.Model.Pattern, c.Model.Vocab, c.Model.Width = "*-*-*-*-", 512, 128
	c.Model.Heads, c.Model.KVHeads, c.Model.Hidden = 4, 4, 512
	c.Model.Tied = true
	c.Optim.LR, c.Optim.MinLR = 1e-3, 1e-4
	return c
}
