package run

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/train"
	"firstbit/tune"
)

var (
	rewrite = flag.Bool("rewrite", false, "rewrite the golden fingerprints")
	steps   = flag.Int("steps", goldenSteps, "of every golden run as many of its first steps: under an emulator all of them take long")
)

const goldenSteps = 3

const goldenFile = "testdata/golden.json"

// golden is a run whose bits are pinned.
type golden struct {
	name   string
	config train.Config
	layout parallel.Layout
	recipe string
	faults []string
}

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

// plainGoldens are configurations in the precisions without quantised operands, by every recipe, on one rank and by data parallel.
func plainGoldens(t *testing.T) (all []golden) {
	for _, name := range []string{"tiny", "small", "whole", "ranks"} {
		for _, precision := range []string{"fp32", "bf16", "fp64"} {
			for _, recipe := range []string{"fixed", "fast", "canonical"} {
				if recipe == "canonical" && (name != "ranks" || precision == "fp64") {
					continue
				}
				g := golden{name: name + " " + precision + " " + recipe, config: goldenConfig(t, name), recipe: recipe}
				g.config.Precision, g.config.Micro = precision, 2
				if name == "ranks" {
					g.layout.DP, g.config.Batch = 4, 1
				}
				all = append(all, g)
			}
		}
	}
	return all
}

// A run whose numbers grow beyond all bounds: most of what it computes from the second step on is NaN or infinite.
const nanRun = "optim.lr=1e30 optim.min_lr=0"

// A run in fp16 of which some steps are skipped.
const skippedRun = "optim.loss_scale.initial=131072 optim.loss_scale.growth_interval=1 optim.loss_scale.hysteresis=1"

// smallGoldens are pico on every axis and in every precision, and what is left of a run that is full of NaNs. A layout of one rank is dp=1.
var smallGoldens = []struct{ layout, precision, recipe, set, fault string }{
	{"dp=1", "fp8", "fixed", "micro=2 model.dropout=0.1", ""},
	{"dp=1", "fp8", "fast", "quant.scaling=delayed model.moe.latent=8", ""},
	{"dp=1", "mxfp8", "fixed", "micro=2 model.recompute=true", ""},
	{"dp=1", "mxfp8", "fixed", "quant.rule=floor model.moe.router=softmax_topk", ""},
	{"dp=1", "nvfp4", "fixed", "micro=2 model.dropout=0.1 model.recompute=true", ""},
	{"dp=1", "nvfp4", "fast", "streams=indexed seq=24", ""},

	{"tp=2", "fp32", "fixed", "", ""},
	{"tp=2", "nvfp4", "fixed", "model.dropout=0.1", ""},
	{"dp=2,tp=2", "bf16", "fast", "cluster.overlap=true micro=2", ""},
	{"pp=2", "fp64", "fixed", "micro=2", ""},
	{"pp=2", "fp8", "fixed", "micro=2 quant.scaling=delayed", ""},
	{"pp=2,vpp=2", "mxfp8", "fixed", "micro=2 cluster.overlap=true model.pattern=M*E-M*E-/*E model.mtp.depths=1", ""},
	{"tp=2,pp=2", "bf16", "fixed", "micro=2", ""},
	{"tp=2,pp=2", "nvfp4", "fixed", "micro=2", ""},
	{"tp=2,pp=2", "mxfp8", "fast", "micro=2", ""},
	{"cp=2", "nvfp4", "fixed", "", ""},
	{"dp=2,cp=2,ep=2", "fp32", "fixed", "model.moe.jitter=0.05", ""},
	{"dp=2,ep=2", "bf16", "fixed", "cluster.overlap=true model.moe.shared_hidden=16", ""},
	{"dp=2,ep=2", "fp8", "fast", "quant.scaling=delayed", ""},
	{"tp=2,ep=2,etp=2,dp=2", "mxfp8", "fixed", "", ""},
	{"tp=2,etp=2", "bf16", "fast", "", ""},

	{"dp=1", "fp16", "fixed", "micro=2 optim.decay=wsd optim.wsd_steps=2 optim.warmup=1 steps=4", ""},
	{"dp=2", "fp16", "fast", "cluster.overlap=true model.dropout=0.1 " + skippedRun, ""},
	{"tp=2,pp=2", "fp16", "fixed", "micro=2 " + skippedRun, ""},
	{"dp=2,tp=2,pp=2,ep=2", "fp16", "canonical", "micro=2 " + skippedRun, ""},

	{"dp=1", "bf16", "canonical", "micro=2 batch=2 model.dropout=0.1", ""},
	{"dp=2,tp=2,pp=2,ep=2", "bf16", "canonical", "micro=2 model.dropout=0.1", ""},
	{"tp=2,cp=2", "fp32", "canonical", "", ""},
	{"tp=4,ep=4", "nvfp4", "fixed", "model.pattern=E model.moe.top_k=1 seq=8", ""}, // experts without a row

	{"dp=1", "fp32", "fixed", nanRun, ""},
	{"dp=1", "bf16", "fast", nanRun + " micro=2 model.dropout=0.1", ""},
	{"pp=2", "fp64", "fixed", nanRun + " micro=2 model.recompute=true", ""},
	{"dp=2", "fp8", "fixed", nanRun + " quant.scaling=delayed", ""},
	{"tp=2,cp=2", "mxfp8", "fixed", nanRun, ""},
	{"dp=2,ep=2", "nvfp4", "fixed", nanRun, ""},
	{"dp=2,tp=2", "fp32", "canonical", nanRun, ""},
	{"dp=2", "nvfp4", "fixed", "", "flip@layers.2.norm phase=fwd step=2 rank=1 out=y bit=14"},
	{"pp=2", "fp32", "fixed", "micro=2", "flip@layers.2.norm phase=fwd step=2 rank=1 out=y bit=30"},
}

func (g golden) run() (fingerprints []string, o *Outcome, err error) {
	o, err = Run(Spec{Config: g.config, Layout: g.layout, Recipe: g.recipe, Faults: g.faults, Schedule: device.Schedule{Seed: 3}, Until: *steps, Kept: Kept{Digest: true}})
	if err != nil {
		return nil, nil, err
	}
	for _, s := range o.Steps {
		fingerprints = append(fingerprints, s.Metrics[0].Bits+" "+s.State)
	}
	return fingerprints, o, nil
}

// goldens are all runs whose bits are pinned.
func goldens(t *testing.T) []golden {
	all := plainGoldens(t)
	for _, s := range smallGoldens {
		g := golden{config: train.Pico(), recipe: s.recipe}
		g.name = strings.Join(strings.Fields(strings.Join([]string{"pico", s.precision, s.recipe, s.layout, s.set, s.fault}, " ")), " ")
		g.config.Precision, g.config.Model.SSM.Groups = s.precision, 2
		var err error
		g.layout, err = parallel.ParseLayout(s.layout)
		require.NoError(t, err, g.name)
		if s.recipe == tune.Canonical {
			g.config.Model.MoE.Aux = "sequence"
		}
		for _, assignment := range strings.Fields(s.set) {
			require.NoError(t, g.config.Set(assignment), g.name)
		}
		if s.fault != "" {
			g.faults = []string{s.fault}
		}
		all = append(all, g)
	}
	return all
}

// Fingerprints of a few steps: one file for all architectures, which scripts/arch.sh runs on each.
func TestGolden(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes under the race detector")
	}
	want, got := readGoldens(t), map[string][]string{}
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			fingerprints, o, err := g.run()
			require.NoError(t, err)
			got[g.name] = fingerprints
			if !*rewrite {
				require.Len(t, want[g.name], goldenSteps)
				require.Equal(t, want[g.name][:*steps], fingerprints)
			}
			if nan := strings.Contains(g.name, nanRun) || g.faults != nil; *steps == goldenSteps {
				require.Equal(t, nan, o.NonFinite != "", o.NonFinite)
			}
		})
	}
	if *rewrite {
		text, err := json.MarshalIndent(got, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(goldenFile, append(text, '\n'), 0o644))
	}
}

func readGoldens(t *testing.T) (want map[string][]string) {
	text, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	return want
}

// The file has a run for each name and no other, and the fingerprints see what the runs differ in.
func TestGoldenFile(t *testing.T) {
	want := readGoldens(t)
	seen := map[string]string{}
	for _, g := range goldens(t) {
		require.Len(t, want[g.name], goldenSteps, g.name)
		for _, steps := range want[g.name] {
			require.Empty(t, seen[steps], "%s has a fingerprint of another", g.name)
		}
		for _, steps := range want[g.name] {
			seen[steps] = g.name
		}
		delete(want, g.name)
	}
	require.Empty(t, want, "no run has these names")
}
