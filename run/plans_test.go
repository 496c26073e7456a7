package run

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/train"
)

// A policy or fault that does not fit what it names ends the run in one line, which says what would.
func TestPlansThatDoNotFit(t *testing.T) {
	c := train.Tiny()
	c.Steps, c.Batch, c.Model.Dropout, c.Model.Recompute = 1, 1, 0.1, true
	for plan, want := range map[string]string{
		"*.ssm.scan chunk=0":             "chunk=0: must be a number from 1 to",
		"*.ssm.scan chunk=x":             "chunk=x: must be a number from 1 to",
		"*.ssm.scan chunk:seq":           `plan has no reduction "chunk"`,
		"*.ssm.scan heads:seq":           `plan has no reduction "heads": this kernel's plan is n:seq/fp32; steps:seq/fp32; chunk=16`,
		"*.router.topk* slots=foo":       "slots=foo: must be value or index",
		"*.router.topk* sort=maybe":      "sort=maybe: must be false or true",
		"*.router.topk tie=foo":          "tie=foo: must be native or low",
		"*.router.topk fused=1":          "fused=1: must be false or true",
		"*.dprob sched=foo":              "sched=foo: must be static or dynamic",
		"*.dprob grid=0":                 "grid=0: must be a number from 1 to",
		"*.aux_loss grid=all":            "grid=all: must be a number from 1 to",
		"*.ssm.scan n:given(1 0)":        "n:given(1 0)/fp32: is not an order of 16 values",
		"*.ssm.d.dw rows:given(0)":       "rows:given(0)/fp32: is not an order of 32 values",
		"layers.*.attn.wq k:given(1 0)":  "is not an order of 32 values",
		"*.dprob tiles:given(0 1)":       "tiles:given(0 1)/fp32: is not an order of 4 values",
		"*.norm d:splitk(2,given(0 1))x": "missing )",
		"* k:mma(turing)":                "plan for layers.0.ssm.in_proj (matmul): k:seq/mma(turing): the tensor cores of turing do not multiply tf32: they have fp16",
		"layers.*.norm d:mma(hopper)":    "d:seq/mma(hopper): is no sum of products of two tensors",
	} {
		_, err := Run(Spec{Config: c, Plans: []string{plan}})
		require.ErrorContains(t, err, want, plan)
		require.NotContains(t, err.Error(), "\n", plan)
		if glob, item, _ := strings.Cut(plan, " "); strings.Contains(item, "=") {
			_, err = Run(Spec{Config: c, Faults: []string{"order@" + glob + " " + item}})
			require.ErrorContains(t, err, want, "as a fault")
		}
	}
	for _, plan := range []string{"*.ssm.scan chunk=1048576", "*.router.topk tie=low; slots=index; sort=true",
		"*.ssm.scan.dx heads:arrival; state:reverse", "*.ssm.scan n:splitk(2,given(1 0))", "layers.*.attn.wq k:reverse"} {
		o, err := Run(Spec{Config: c, Plans: []string{plan}, Checks: Checks{Strict: true}})
		require.NoError(t, err, plan)
		require.NoError(t, o.Missed, plan)
	}
}

// Every product of linear layers, experts, heads and attention's scores runs on tensor cores in every precision; runs repeat, and differ from those
// that add one by one, and between architectures that add otherwise. Two that add alike have the same bits.
func TestTensorCores(t *testing.T) {
	state := func(precision, arch string) string {
		c := train.Tiny()
		c.Steps, c.Batch = 1, 1
		require.NoError(t, c.Set("precision="+precision))
		s := Spec{Config: c, Kept: Kept{Digest: true}, Checks: Checks{Strict: true}}
		if arch != "" {
			s.Plans = []string{"* k:mma(" + arch + ")", "*.experts.w?.dw rows:mma(" + arch + ")", "*.attention* p:mma(" + arch + ")"}
		}
		o, err := Run(s)
		require.NoError(t, err, "%s %s", precision, arch)
		require.NoError(t, o.Missed)
		return o.Steps[0].State
	}
	for precision, archs := range map[string][]string{"fp32": {"", "ampere", "hopper"}, "bf16": {"", "ampere", "hopper"}, "fp16": {"", "ampere", "hopper"},
		"fp8": {"", "ada", "blackwell"}, "mxfp8": {"", "blackwell"}, "nvfp4": {"", "blackwell"}} {
		seen := map[string]string{}
		for _, arch := range archs {
			s := state(precision, arch)
			require.Empty(t, seen[s], "%s %q", precision, arch)
			seen[s] = arch
		}
		last := archs[len(archs)-1]
		require.Equal(t, last, seen[state(precision, last)], "%s: repeated", precision)
	}
	require.Equal(t, state("bf16", "hopper"), state("bf16", "blackwell"))
}
