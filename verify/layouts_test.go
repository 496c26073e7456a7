package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/state"
	"firstbit/train"
	"firstbit/tune"
)

// The whole matrix is for the command: here a layout with most axes. TestNoiseOnEveryLayout has the others.
func TestLayouts(t *testing.T) {
	layouts := []string{"dp=2,tp=2,pp=2,ep=2"}
	if *exhaustive {
		layouts = append(layouts, "tp=2,ep=4", "tp=2,cp=2", "pp=2,vpp=2")
	}
	var seen []Cell
	cells, one, err := layoutsOf(few(), tune.Canonical, layouts, func(c Cell) error {
		seen = append(seen, c)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, seen, cells)
	require.Len(t, cells, len(few())*(1+len(layouts)))
	require.Len(t, one, 32)
	hashes, functions := map[string]bool{}, map[string]bool{}
	for _, c := range cells {
		require.True(t, c.OK, "%s: %v", c.Name, c.Why)
		require.Nil(t, c.Why)
		hashes[c.Hash] = true
	}
	for _, v := range few() {
		functions[strings.TrimSuffix(v.name(parallel.Layout{}.Full()), " "+string(replicated))] = true
	}
	require.Len(t, hashes, len(functions), "one for each pattern, precision and option, but that whose optimizer is replicated has the bits of the sharded one's")
}

// The fixed recipe gives every layout bits of its own, and is found out.
func TestTheFixedRecipeDependsOnTheLayout(t *testing.T) {
	cells, _, err := layoutsOf(few()[:1], "fixed", []string{"dp=8", "tp=2", "cp=2"}, nil)
	require.NoError(t, err)
	hashes := map[string]bool{}
	for _, c := range cells {
		hashes[c.Hash] = true
		require.Equal(t, strings.HasPrefix(c.Name, "dp1 "), c.OK, c.Name)
		if !c.OK {
			require.Contains(t, *c.Why, "differs from one rank: step 1 ", c.Name)
		}
	}
	require.Len(t, hashes, len(cells))
}

// The fast recipe differs under another schedule alone.
func TestTheFastRecipeDependsOnTheSchedule(t *testing.T) {
	cell, _, err := variant{"M*EM*EM*/*E", "fp32", plain}.twice(parallel.Layout{}, "fast")
	require.NoError(t, err)
	require.False(t, cell.OK)
	require.Contains(t, *cell.Why, "another schedule")
}

// A pipeline cut by | into unequal stages has one rank's bits too, and they are those of the pattern without the cuts.
func TestStagesCutByHand(t *testing.T) {
	run := func(pattern string, l parallel.Layout) Values {
		s := variant{pattern, "bf16", plain}.spec(l, tune.Canonical)
		v, err := Run(s)
		require.NoError(t, err)
		return v
	}
	one := run("M*EM*E/*E", parallel.Layout{})
	for pattern, l := range map[string]parallel.Layout{"M|*EM*E/*E": {PP: 2}, "M*EM*|E/*E": {PP: 2, TP: 2}, "M|*EM|*|E/*E": {PP: 2, VPP: 2}} {
		require.Empty(t, one.Differ(run(pattern, parallel.Layout{})), pattern)
		require.Empty(t, one.Differ(run(pattern, l)), "%s %s", pattern, l)
	}
	require.NotEmpty(t, one.Differ(run("M|*EM-E/*E", parallel.Layout{PP: 2})), "negative control")
}

// globalConfig is tiny with the whole batch in one microbatch.
func globalConfig(pattern, precision string) train.Config {
	c := train.Tiny()
	c.Model.Pattern, c.Precision, c.Steps, c.Batch, c.Seq = pattern, precision, matrixSteps, matrixBatch, 16
	c.Model.MoE.Aux = "sequence"
	return c
}

// over is a configuration over a layout, its batch being the global one: under cp in microbatches of one sequence.
func over(t *testing.T, c train.Config, layout string, plans ...string) Values {
	t.Helper()
	l, err := parallel.ParseLayout(layout)
	require.NoError(t, err)
	c.Batch /= l.DP
	if l.CP > 1 {
		c.Batch, c.Micro = 1, c.Micro*c.Batch
	}
	v, err := Run(run.Spec{Config: c, Layout: l, Recipe: tune.Canonical, Plans: plans, Schedule: device.Schedule{Seed: uint64(l.World())}})
	require.NoError(t, err)
	return v
}

// run is a configuration over so many data-parallel ranks, its batch being the global one, with plans by hand over the recipe.
func trained(t *testing.T, c train.Config, dp int, plans ...string) Values {
	t.Helper()
	return over(t, c, fmt.Sprintf("dp=%d", dp), plans...)
}

// Whatever else a configuration has: tied and repeated layers, recomputation, other routers, groups, a latent, several buckets.
func TestConfigurations(t *testing.T) {
	seen := map[string]int{}
	for name, set := range map[string][]string{
		"tied":         {"model.pattern=*-/*", "model.tied=true"},
		"repeated":     {"model.pattern=M/*E", "model.mtp.depths=3", "model.mtp.repeated=true"},
		"recompute":    {"model.recompute=true"},
		"softmax":      {"model.moe.router=softmax", "model.moe.router_dtype=bf16"},
		"softmax_topk": {"model.moe.router=softmax_topk", "model.moe.top_k=3"},
		"groups":       {"model.moe.groups=4", "model.moe.groups_kept=2", "model.moe.latent=8", "model.moe.shared_hidden=0"},
		"odd extents":  {"model.width=28", "model.hidden=36", "model.moe.experts=7", "model.moe.hidden=23", "model.moe.tile_m=3", "model.moe.tile_n=5"},
		"one bucket":   {"cluster.bucket=100000000"},
		"many buckets": {"cluster.bucket=1"},
		"no clipping":  {"optim.clip=0", "seq=64"},
		"short":        {"seq=4", "batch=64"},
	} {
		t.Run(name, func(t *testing.T) {
			c := globalConfig("M*E-/*E", "bf16")
			c.Steps = 2
			for _, s := range set {
				require.NoError(t, c.Set(s))
			}
			want := over(t, c, "")
			dp := []int{4}
			if *exhaustive {
				dp = []int{2, 8}
			}
			for _, n := range dp {
				require.Empty(t, want.Differ(trained(t, c, n)), "dp=%d", n)
			}
			layouts := []string{"cp=2", "dp=2,tp=2,pp=2"}
			if c.Model.MoE.Experts%2 == 0 {
				layouts = append(layouts, "dp=2,ep=2")
			}
			for _, l := range layouts {
				if c.Seq >= 8 && c.CheckLayout(must(parallel.ParseLayout(l))) == nil {
					require.Empty(t, want.Differ(over(t, c, l)), l)
					seen[l]++
				}
			}
		})
	}
	require.Equal(t, map[string]int{"cp=2": 10, "dp=2,ep=2": 9, "dp=2,tp=2,pp=2": 9}, seen)
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// Microbatches are cut like ranks: the same bits however a batch is dealt to both.
func TestMicrobatches(t *testing.T) {
	for _, precision := range []string{"fp32", "bf16"} {
		c := globalConfig("M*E-/*E", precision)
		c.Model.Tied, c.Steps = true, 2
		want := trained(t, c, 1)
		for _, cut := range []struct{ dp, micro int }{{1, 2}, {1, 8}, {2, 4}, {4, 2}, {2, 2}} {
			c := c
			c.Batch, c.Micro = c.Batch/cut.micro, cut.micro
			require.Empty(t, want.Differ(trained(t, c, cut.dp)), "%+v", cut)
		}
		c.Batch, c.Micro = 2, 4
		require.NotEmpty(t, want.Differ(trained(t, c, 1, "metrics.losses micro:seq")), "negative control: losses in a chain")
		require.NotEmpty(t, want.Differ(trained(t, c, 1, "grads.accumulate micro:given(0 2 1 3)")), "negative control: microbatches in another order")
	}
}

// Each rule is needed: without it, two layouts differ.
func TestEveryRuleIsNeeded(t *testing.T) {
	for _, rule := range []string{
		"matmul.wgrad k:seq", "rmsnorm.wgrad rows:seq", "rmsnorm.gated.wgrad rows:seq", "causal_conv1d.wgrad rows:seq", "ssd.dA rows:seq",
		"ssd.dA coeff=sum", "ssd.dD rows:seq", "ssd.ddt_bias rows:seq", "loss_sum tokens:seq", "z_loss tokens:seq", "z_loss coeff=sum",
		"fused_aux_loss by=position", "fused_aux_loss sequences:perm(3)", "embedding.bwd cut=present", "embedding.bwd tokens:seq",
		"grouped_gemm.wgrad cut=present", "grouped_gemm.wgrad rows:seq", "dprob sched=static",
		"all_reduce ranks:ring", "reduce_scatter ranks:ring",
	} {
		t.Run(rule, func(t *testing.T) {
			kernel, plan, _ := strings.Cut(rule, " ")
			var globs []string
			for _, g := range labels[kernel] {
				globs = append(globs, g+" "+plan)
			}
			require.NotEmpty(t, globs, kernel)
			for seed := range uint64(40) { // where one number is made, two roundings may agree
				c := globalConfig("M*E-/*E", "fp32")
				c.Steps, c.Seed = 1, seed
				if trained(t, c, 1, globs...).Differ(trained(t, c, 4, globs...)) != "" {
					return
				}
			}
			t.Fatal("no seed shows the rule")
		})
	}
}

// Nor can the rules for parts of a sequence or of a sum be left out.
func TestEveryRuleOfPartsIsNeeded(t *testing.T) {
	for _, r := range []struct {
		layout string
		plans  []string
	}{
		{"tp=2", []string{"layers.3.mlp.w2 k:seq"}}, {"tp=2", []string{"layers.1.attn.wq.dx k:seq"}}, {"tp=2", []string{"layers.0.ssm.out_proj k:seq"}},
		{"tp=2", []string{"loss.part vocab:seq"}}, {"tp=2", []string{"logits.dh k:seq"}},
		{"cp=2", []string{"layers.1.attn.attention.dx by=head"}}, {"cp=4", []string{"*ssm.scan within=sequence", "*ssm.scan.dx within=sequence"}},
		{"cp=2", []string{"layers.3.mlp.w1.dw k:seq"}},
	} {
		found := false
		for seed := uint64(0); seed < 20 && !found; seed++ { // where one number is made, two roundings may agree
			c := globalConfig("M*E-", "fp32")
			c.Steps, c.Seed = 1, seed
			found = over(t, c, "", r.plans...).Differ(over(t, c, r.layout, r.plans...)) != ""
		}
		require.True(t, found, "no seed shows %s without %v", r.layout, r.plans)
	}
}

// labels are GLOBs for the Calls of a kernel.
var labels = map[string][]string{
	"matmul.wgrad": {"*.in_proj.dw"}, "rmsnorm.wgrad": {"norm.dw"}, "rmsnorm.gated.wgrad": {"*.ssm.norm.dw"},
	"causal_conv1d.wgrad": {"*.conv.dw"}, "ssd.dA": {"*.a_log.dw"}, "ssd.dD": {"*.d.dw"}, "ssd.ddt_bias": {"*.dt_bias.dw"},
	"loss_sum": {"loss_sum"}, "z_loss": {"*router.z_loss"}, "fused_aux_loss": {"*.aux_loss"}, "embedding.bwd": {"embed.dw"},
	"grouped_gemm.wgrad": {"*experts.w1.dw"}, "dprob": {"*.dprob"}, "all_reduce": {"metrics.losses.sum"}, "reduce_scatter": {"grads.bucket.?"},
}

// What the collector may be handed wrongly is an error.
func TestJoin(t *testing.T) {
	step := func(metric uint64, lo int, bits ...uint64) []rankStep {
		return []rankStep{{{Value{"loss", []uint64{metric}}, state.Place{Whole: []int{1}}}, {Value{"w.m", bits}, state.Place{Whole: []int{4}, Lo: lo}}}}
	}
	v, err := join([][]rankStep{step(1, 0, 5, 6), step(1, 2, 7, 8), step(1, 1, 6, 7)}, 0)
	require.NoError(t, err)
	require.Equal(t, Values{{"step 1 loss", []uint64{1}}, {"step 1 w.m", []uint64{5, 6, 7, 8}}}, v)
	_, err = join([][]rankStep{step(1, 0, 5, 6)}, 0)
	require.ErrorContains(t, err, "w.m: no rank holds element 2")
	_, err = join([][]rankStep{step(1, 0, 5, 6), step(2, 2, 7, 8)}, 0)
	require.ErrorContains(t, err, "ranks 0 and 1 hold other copies of loss: element 0")
	_, err = join([][]rankStep{step(1, 0, 5, 6), step(1, 1, 7, 8)}, 0)
	require.ErrorContains(t, err, "ranks 0 and 1 hold other copies of w.m: element 1")
}

// A single bit of any value changes the hash and is found.
func TestValues(t *testing.T) {
	c := globalConfig("*-", "bf16")
	c.Steps = 1
	v := trained(t, c, 2)
	names := map[string]bool{}
	for i, x := range v {
		names[x.Name] = true
		u := slices.Clone(v)
		u[i].Bits = slices.Clone(x.Bits)
		u[i].Bits[len(x.Bits)/2] ^= 1 << 63
		require.NotEqual(t, v.Hash(), u.Hash(), x.Name)
		require.Contains(t, v.Differ(u), x.Name+" in 1 of ")
	}
	for _, name := range []string{"metric loss", "metric grad_norm", "embed.w", "embed.w.master", "embed.w.m", "embed.w.v", "embed.w.grad"} {
		require.True(t, names["step 1 "+name], name)
	}
}

// Asked for one rank, the matrix has it once.
func TestOneRankIsOneCell(t *testing.T) {
	cells, err := matrix(variants(), []string{"dp=1", "dp=2", "tp=1,dp=2"}, nil, func(s variant, l parallel.Layout, _ Values) (Cell, Values, error) {
		return Cell{Name: s.name(l)}, nil, nil
	})
	require.NoError(t, err)
	require.Len(t, cells, 2*len(variants()))
	require.Len(t, cells, MatrixCells(1))
}
