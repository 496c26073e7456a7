package run

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/train"
)

// revealed are the sums of Calls that match, by the plans of a run.
func revealed(t *testing.T, glob, phase, sum string, plans ...string) []RevealedSum {
	t.Helper()
	if testing.Short() {
		t.Skip("a sum is asked for by hundreds of runs, which race as others do")
	}
	got, err := RevealCalls(Spec{Config: train.Pico(), Plans: plans}, Revealing{Site: Site{Path: glob, Phase: phase, Step: 1}, Sum: sum})
	require.NoError(t, err)
	return got
}

// Of every kind of kernel a sum: in products, of squares and exponentials, and inside functions.
func TestRevealCalls(t *testing.T) {
	for _, c := range []struct{ call, phase, sum, by string }{
		{"embed.dw", "bwd", "tokens", values},
		{"layers.0.norm", "fwd", "d", squares},
		{"layers.0.norm.dx", "bwd", "d", values},
		{"layers.0.norm.dw", "bwd", "rows", values},
		{"layers.0.ssm.conv", "fwd", "taps", values},
		{"layers.0.ssm.conv.dw", "bwd", "rows", values},
		{"layers.0.ssm.scan", "fwd", "n", values},
		{"layers.0.ssm.scan", "fwd", "steps", values},
		{"layers.0.ssm.a_log.dw", "bwd", "rows", values},
		{"layers.0.ssm.norm", "fwd", "d", squares},
		{"layers.1.attn.wq", "fwd", "k", values},
		{"layers.1.attn.attention", "fwd", "p", values},
		{"layers.1.attn.attention.dx", "bwd", "p", values},
		{"layers.2.moe.router.share", "fwd", "experts", values},
		{"layers.2.moe.router.z_loss", "fwd", "experts", exponentials},
		{"layers.2.moe.router.aux_loss", "fwd", "ctas", values},
		{"layers.2.moe.experts.w1.dw", "bwd", "rows", values},
		{"layers.2.moe.experts.w1.dx", "bwd", "k", values},
		{"grad_norm.norm", "opt", "params", values},
		{"metrics.loss", "opt", "parts", values},
	} {
		for _, r := range revealed(t, c.call, c.phase, c.sum) {
			require.True(t, r.Planned != nil && *r.Planned && r.Verified, "%+v: %s of %s: %s %s", c, r.By, r.Operand, r.Class, r.Tree)
			require.Equal(t, c.by, r.By, "%+v", c)
		}
	}
}

// What a Call's sums are is its plan's doing.
func TestRevealCallsByOtherPlans(t *testing.T) {
	for _, c := range []struct{ call, phase, sum, plan, class string }{
		{"layers.1.attn.wq", "fwd", "k", "lanes(4)/bf16", "lanes(4)"},
		{"layers.1.attn.wq", "fwd", "k", "splitk(4)/fp32~bf16", "splitk(4)"},
		{"layers.1.attn.wq", "fwd", "k", "exact", "exact"},
		{"layers.1.attn.wq", "fwd", "k", "mma(ampere)", "fused"},
		{"layers.1.attn.attention", "fwd", "keys", "lanes(4)", "lanes(4)"},
		{"layers.0.norm.dx", "bwd", "d", "pairwise", "pairwise"},
		{"layers.2.moe.router.z_loss", "fwd", "experts", "reverse", "reverse"},
		{"layers.2.moe.router.z_loss", "fwd", "experts", "neumaier", "exact"}, // of a sum inside a logarithm no more can be told
		{"layers.0.ssm.scan", "fwd", "steps", "blocked(4)", "blocked(4)"},
	} {
		for _, r := range revealed(t, c.call, c.phase, c.sum, c.call+" "+c.sum+":"+c.plan) {
			require.True(t, r.Verified, "%+v: %s", c, r.Class)
			require.Equal(t, c.class, r.Class, "%+v", c)
		}
	}
}

// What adds nothing is no sum.
func TestRevealCallsThatAreNoSums(t *testing.T) {
	r := revealed(t, "layers.3.mlp.act", "fwd", "")[0]
	require.Equal(t, noSum, r.Class)
	r = revealed(t, "layers.0.ssm.scan.dx", "bwd", "state")[0]
	require.Equal(t, hidden, r.Class, "a sequence of one chunk has no state before it")
	r = revealed(t, "layers.2.moe.combine", "fwd", "slots")[0]
	require.Equal(t, single, r.Class)
	s := Spec{Config: train.Pico()}
	s.Config.Precision = "mxfp8"
	all, err := RevealCalls(s, Revealing{Site: Site{Path: "layers.3.mlp.w1.x.quant", Phase: "fwd", Step: 1}})
	require.NoError(t, err)
	require.Equal(t, noSum, all[0].Class)
	require.NotNil(t, all[0].Counter, "a block under one scale")
	s.Config.Precision = "fp64"
	_, err = RevealCalls(s, Revealing{Site: Site{Path: "layers.1.attn.wq", Step: 1}})
	require.ErrorContains(t, err, "precision fp64")
	for at, why := range map[Revealing]string{
		{Site: Site{Path: "layers.1.attn.wx", Step: 1}}:              "no Call of that name: nearest",
		{Site: Site{Path: "layers.1.attn.wq", Step: 1}, Sum: "keys"}: "no sum of that name",
		{Site: Site{Path: "layers.1.attn.wq", Step: 9999}}:           "step 9999",
	} {
		_, err := RevealCalls(Spec{Config: train.Pico()}, at)
		require.ErrorContains(t, err, why)
	}
}

// A collective's elements are added by chunk, by every rank that has the Call.
func TestRevealCollectivesOfARun(t *testing.T) {
	var err error
	s := Spec{Config: train.Pico(), Plans: []string{"grads.bucket.* ranks:ring"}}
	s.Layout, err = parallel.ParseLayout("dp=4")
	require.NoError(t, err)
	classes := map[string]bool{}
	for _, element := range []int{0, 5000, 10000, 13567} {
		got, err := RevealCalls(s, Revealing{Site: Site{Path: "grads.bucket.0", Phase: "opt", Step: 1}, Element: element})
		require.NoError(t, err)
		require.True(t, got[0].Verified)
		require.Nil(t, got[0].Planned, "a ring's order is known for an element")
		classes[got[0].Tree.String()] = true
	}
	require.Greater(t, len(classes), 1)
	_, err = RevealCalls(s, Revealing{Site: Site{Path: "grads.bucket.0", Phase: "opt", Step: 1}, Element: 1 << 30})
	require.ErrorContains(t, err, "--element 1073741824: must be from 0 to")
}

// Every sum of every Call of a step, forward and backward.
func TestRevealEveryCall(t *testing.T) {
	if !*matrix {
		t.Skip("-matrix")
	}
	shown := []string{single, idle, hidden}
	for _, r := range revealed(t, "*", "", "") {
		require.True(t, slices.Contains(shown, r.Class) || r.Planned != nil && *r.Planned && r.Verified, "%+v", r)
		if r.Class == hidden {
			require.True(t, r.Leaves > leavesMost || r.Kernel == "ssd.bwd" && (r.Sum == "state" || r.Sum == "steps"), "%+v", r)
		}
	}
}
