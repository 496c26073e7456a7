package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// firstbit runs the program in this process.
func firstbit(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	errs, err := os.Create(filepath.Join(dir, "err"))
	require.NoError(t, err)
	code = perform(args, out, errs) // which closes out
	require.NoError(t, errs.Close())
	o, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	e, err := os.ReadFile(errs.Name())
	require.NoError(t, err)
	return code, string(o), string(e)
}

func jsonOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &v), "one JSON object on stdout: %.200s", text)
	return v
}

// Whatever is wrong: one line that names the flag, field or file and what is allowed, exit 2, nothing written.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	binary, empty := file("binary.txt", "a\x00b"), file("empty.txt", "")
	unknown, notJSON := file("unknown.json", `{"stepz": 3}`), file("bad.json", `{`)
	twice, variant := file("twice.json", `{"steps": 3, "steps": 4}`), file("variant.json", `{"model": {"Width": 64}}`)
	full := filepath.Join(dir, "full")
	require.NoError(t, os.Mkdir(full, 0o755))
	file("full/something", "x")
	for _, c := range []struct{ args, want string }{
		{"train --set model.heads=5", "model.heads: 5: must divide model.width (32)"},
		{"train --set model.kv_heads=3", "model.kv_heads: 3: must divide model.heads (4)"},
		{"train --set model.moe.top_k=9", "model.moe.top_k: 9: must be at most model.moe.experts (8)"},
		{"train --set model.pattern=*Q", "unknown letter 'Q' at 1: allowed are M Mamba-2, * attention"},
		{"train --set model.pattern=", "model.pattern: empty"},
		{"train --set model.widht=3", `no field "widht" in model: did you mean width? must be one of dropout`},
		{"train --set model=3", "group of fields"},
		{"train --set model.width=wide", "must be a whole number"},
		{"train --set model.width", "must be path=value"},
		{"train --set optim.lr=-1", "optim.lr: -1: must be above 0"},
		{"train --set optim.decay=sudden", "must be one of constant, linear, cosine"},
		{"train --set model.width=1048576 --set model.hidden=1048576", "parameters: must be at most"},
		{"train --set batch=1048576 --set seq=1048576", "activations: must be at most"},
		{"train --preset huge", "must be one of gpt, pico, small, tiny"},
		{"train --steps 0", "steps: 0: must be from 1"},
		{"train --steps many", "--steps"},
		{"train --precision bf16 --set optim.loss_scale.min=2", "optim.loss_scale.min: 2: must be 1 with precision bf16: only fp16 scales its loss"},
		{"train --precision fp16 --set optim.loss_scale.initial=1000", "optim.loss_scale.initial: 1000: must be a power of two up to 2^126"},
		{"train --set optim.decay=wsd", "optim.wsd_steps: 0: must be 1 or more with optim.decay wsd"},
		{"train --precision fp7", "precision: \"fp7\": did you mean fp8? must be one of fp32, bf16, fp16, fp64"},
		{"train --recipe loose", "must be one of fixed, fused, fast, canonical"},
		{"train --recipe canonical --layout tp=2,cp=8", "layout tp·cp: 16: must be a power of two up to 8 with recipe canonical"},
		{"train --recipe canonical --precision fp64", "precision: fp64: must be one of up to 32 bits with recipe canonical"},
		{"train --recipe canonical --layout cp=2", "batch: 4: must be 1 with cp with recipe canonical"},
		{"verify layouts --layout dp=16", "dp must divide the 8 sequences of a step"},
		{"verify modules --layout tp=3", "tp=3 must divide model.vocab (256); the nearest that fit: \"dp=1,tp=2\" and \"dp=1,tp=4\""},
		{"verify resume --layout dp=2", "unknown flag: --layout"},
		{"train --recipe canonical --set batch=6", "batch: 6: must be a power of two with recipe canonical"},
		{"train --recipe canonical --set seq=24", "seq: 24: must be a power of two with recipe canonical"},
		{"train --recipe canonical", `model.moe.aux: "": must be sequence with recipe canonical: the loss of a batch`},
		{"train --recipe canonical --set streams=rank --set model.dropout=0.1", "streams: rank: must be indexed with recipe canonical: for model.dropout a rank"},
		{"train --recipe canonical --set streams=rank --set model.moe.jitter=0.1", "streams: rank: must be indexed with recipe canonical: for model.moe.jitter a rank"},
		{"train --set streams=none", `streams: "none": must be one of rank, indexed, or empty for the recipe's`},
		{"train --recipe canonical --set model.moe.z_coeff=1e-30", "model.moe.z_coeff: 1e-30: must be 0 or at least 1e-12 with recipe canonical"},
		{"train --recipe canonical --set model.moe.aux_coeff=1e-13", "model.moe.aux_coeff: 1e-13: must be 0 or at least 1e-12 with recipe canonical"},
		{"verify", "must be one of repeat, resume"},
		{"verify repeat --layout dp=x", "--layout \"dp=x\": "},
		{"verify repeat --layout tp=3", "must divide model.vocab"},
		{"verify repeat --recipe slow", "must be one of fixed, fused, fast, canonical"},
		{"verify everything", `verify "everything": must be one of repeat, resume, layouts, recipe, kernels, modules`},
		{"train --schedule now", "--schedule \"now\": must be a whole number, or real, or real:WAY, of which there are atomic, turns, local, steal"},
		{"train --schedule real:", "--schedule \"real:\": must be a whole number, or real, or real:WAY, of which there are atomic, turns, local, steal"},
		{"tax --pairs 5", "pairs 5: must be from 6"},
		{"tax --threads 0", "threads 0: must be from 1 to 1024"},
		{"tax --runs 1", "runs 1: must be from 2"},
		{"tax --gpus 8", "--gpus and --days go together: name both"},
		{"tax --gpus 0 --days 1", "--gpus 0: must be above 0"},
		{"tax --gpus 1 --days NaN", "--days NaN: must be above 0"},
		{"tax --steps 4", "--steps: tax takes the steps that --pairs needs"},
		{"tax --layout tp=3", "must divide model.vocab"},
		{"tax --plan nothing", "must be 'GLOB PLAN'"},
		{"tax --plan *.norm.dw;rows:arrival", "rule norm-atomics"},
		{"train --data /nonexistent", "no such file"},
		{"train --data " + binary, "is binary"},
		{"train --data " + empty, "is empty"},
		{"train --config /nonexistent", "no such file"},
		{"train --config " + unknown, "no field"},
		{"train --config " + notJSON, "--config"},
		{"train --config " + file("more.json", `{}}`), "--config " + dir + "/more.json: invalid character '}' after top-level value"},
		{"train --config " + twice, `field "steps": is there twice`},
		{"train --config " + variant, `no field "Width" in model: must be "width"`},
		{"train --config /dev/zero", "--config /dev/zero: is a device or socket: must be a regular file"},
		{"train --weights /dev", "--weights: checkpoint /dev/config.json: no such file"},
		{"train --layout xp=4", "must be AXIS=N with an axis of dp, tp, pp, vpp, cp, ep, etp"},
		{"train --layout tp=4", "tp=4 must divide model.kv_heads (2); the nearest that fit: \"dp=1,tp=2\""},
		{"train --layout dp=0", "must be from 1 to 16384"},
		{"train --layout dp=2,dp=2", "given twice"},
		{"train --level kernel", "--level: needs --trace"},
		{"train --trace " + full, "is not empty"},
		{"train --trace " + binary + "/x", "not a directory"},
		{"train --trace " + dir + "/t1 --level deep", "must be one of metrics, semantic"},
		{"train --trace " + dir + "/t2 --trace-steps 5-2", "list of numbers and ranges"},
		{"train --profile gpu", "must be one of cpu, mem, trace"},
		{"train --inject flip", "must be KIND@GLOB"},
		{"train --inject melt@x", "must be one of flip, set, order, drop, unwritten, repeat, early, late, alias, copy, seed, draw, live, rebuild"},
		{"train --inject flip@x;bit=99", "from 0 to 63"},
		{"train --inject flip@x;speed=9", "unknown key"},
		{"train --inject order@x;tiles", "must be KEY=VALUE"},
		{"train --steps 1 --inject order@*.dprob;tiles=sideways", "is a reduction: must be an order: allowed are seq"},
		{"train --steps 1 --inject order@*.logits;tiles=arrival", "plan has no reduction"},
		{"train --export " + dir, "is not empty: name a new folder"},
		{"train --export " + dir + "/x --set model.moe.router=softmax", "softmax"},
		{"train --weights " + dir + "/none", "--weights: checkpoint"},
		{"train --steps 1 --trace " + dir + "/t3 --inject flip@layers.1.attn.wq;elem=99999999", "the output has 4096 elements"},
		{"train --inject drop@x;when=before", "must be one of step, micro, phase, rank, tp, dp, pp, cp, ep"},
		{"train --save-every 2", "--save-every: needs --save DIR"},
		{"train --keep 2", "--keep: needs --save DIR"},
		{"train --save " + dir + "/s --save-every -1", "save-every: -1: must be 0 or more"},
		{"train --save " + binary, "is a file: must be a folder"},
		{"train --save=", "--save: empty"},
		{"train --resume=", "--resume: empty"},
		{"train --resume /nonexistent", "checkpoint /nonexistent: no such file"},
		{"train --resume " + full, "holds none: must have a folder such as step000001"},
		{"checkpoint", "must be show DIR"},
		{"checkpoint list x", "must be show"},
		{"checkpoint show", "must be show DIR"},
		{"checkpoint show " + full, "holds none"},
		{"verify nothing", "must be one of repeat, resume, layouts, recipe, kernels, modules"},
		{"train --plan *.dprob", "must be 'GLOB PLAN'"},
		{"train --plan *.dprob;tiles:sideways", "allowed are seq, reverse"},
		{"train --deterministic --recipe fast", "deterministic: --recipe fast: "},
		{"train --deterministic --plan *.dprob;tiles:arrival", "runs by tiles:arrival/fp32: "},
		{"train extra", "unexpected argument"},
		{"diff", "must be A, or A and B"},
		{"diff /nonexistent /nonexistent", "must be a directory written by train --trace"},
		{"diff " + full + " " + full, "run.json"},
		{"reproduce", "name one from firstbit list"},
		{"reproduce nothing", "must be one of dprob-atomics"},
		{"reproduce rng-omission --steps 3", "steps: 3: must be over 3"},
		{"reproduce bit-flip --steps 2", "step: must be from 1 to 2"},
		{"reproduce bit-flip --set model.widht=3", "did you mean width?"},
		{"reproduce bit-flip --set model.width=7", "bit-flip: model.heads: 4: must divide"},
		{"reproduce bit-flip --set seed=3 --seed 4", "--seed and --set seed=3 exclude each other"},
		{"reproduce bit-flip --steps 3 --far", "exclude each other"},
		{"tree sideways", "allowed are seq, reverse"},
		{"tree lanes(3)", "power of two"},
		{"tree given(1;0) -n 3", "is not an order of 3 values"},
		{"tree ring -n 8", "say ring(c), nccltree(t), nccltree(t,node) or symmetric(r)"},
		{"tree ring(8) -n 8", "is not an order of 8 values"},
		{"tree seq -n -1", "must be from 0 to 4096"},
		{"reveal nothing", "must be one of matmul"},
		{"reveal matmul -n 0", "must be from 1"},
		{"reveal matmul --plan k:seq/bf16 -n 300", "must be from 1 to 256"},
		{"reveal matmul --plan m:seq", "plan has no reduction"},
		{"frobnicate", "unknown command"},
		{"list --colour", "unknown flag"},
	} {
		args := strings.Split(c.args, " ")
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], ";", " ")
		}
		code, stdout, stderr := firstbit(t, args...)
		require.Equal(t, exitBad, code, "%s: %s", c.args, stderr)
		require.Contains(t, stderr, c.want, c.args)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "%s: one line: %s", c.args, stderr)
		require.NotRegexp(t, `(?m)^ +\d|^\{`, stdout, "%s: no step, no JSON", c.args)
	}
	for _, name := range []string{"t1", "t2", "t3"} {
		require.NoDirExists(t, filepath.Join(dir, name), "nothing half-written")
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	for _, c := range command().Commands() { // without cobra's help and completion
		code, stdout, _ := firstbit(t, c.Name(), "--help")
		require.Zero(t, code)
		require.Contains(t, stdout, "Examples:", c.Name())
		require.Contains(t, stdout, "--json", c.Name())
	}
}

// Same command, other GOMAXPROCS, with and without a trace, at every level: the same bits.
func TestTrainIsTheSameHoweverItIsWatched(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, args := range [][]string{{"--precision", "fp32"}, {"--precision", "bf16", "--recipe", "fast", "--set", "micro=2"}} {
		args = append([]string{"train", "--json", "--preset", "pico", "--steps", "2"}, args...)
		_, want, _ := firstbit(t, args...)
		for _, procs := range []int{1, 4} {
			runtime.GOMAXPROCS(procs)
			_, got, _ := firstbit(t, args...)
			require.Equal(t, want, got)
		}
		for _, level := range []string{"semantic", "kernel"} {
			_, got, stderr := firstbit(t, append(args, "--trace", filepath.Join(t.TempDir(), level), "--level", level, "--dump", "*")...)
			require.Equal(t, want, got, stderr)
		}
		_, other, _ := firstbit(t, append(args, "--seed", "2")...)
		require.NotEqual(t, want, other, "the comparison must be able to fail")
	}
}

func TestTrainJSON(t *testing.T) {
	code, stdout, stderr := firstbit(t, "train", "--steps", "2", "--json")
	require.Zero(t, code, stderr)
	v := jsonOf(t, stdout)
	require.Equal(t, true, v["ok"])
	require.Contains(t, v, "config")
	require.InDelta(t, 3.7, v["unigram_entropy"], 0.2)
	steps := v["steps"].([]any)
	require.Len(t, steps, 2)
	first := steps[0].(map[string]any)
	require.EqualValues(t, 1, first["step"])
	require.Len(t, first["state"], 32)
	for _, m := range []string{"loss", "lm_loss", "load_balancing_loss", "grad_norm"} {
		require.Len(t, first["metrics"].(map[string]any)[m].(map[string]any)["bits"], 8)
	}
}

// Weights written and read back are the same model, and the run that begins with them says so.
func TestWeightsGoOutAndComeBack(t *testing.T) {
	dir := t.TempDir()
	out, back := filepath.Join(dir, "a", "hf"), filepath.Join(dir, "hf2")
	code, _, stderr := firstbit(t, "train", "--steps", "2", "--export", out)
	require.Zero(t, code, stderr)
	read := func(args ...string) []any {
		code, stdout, stderr := firstbit(t, append([]string{"train", "--json"}, args...)...)
		require.Zero(t, code, stderr)
		return jsonOf(t, stdout)["steps"].([]any)
	}
	first := read("--weights", out, "--steps", "1", "--export", back)[0].(map[string]any)
	fresh := read("--steps", "1")[0].(map[string]any)
	loss := func(step map[string]any) float64 {
		return step["metrics"].(map[string]any)["lm_loss"].(map[string]any)["value"].(float64)
	}
	require.Less(t, loss(first), loss(fresh))
	require.Len(t, first["experts"].(map[string]any)["layers.2.moe.router"], 8)
	// A step has changed the weights, not their shapes.
	a, err := os.ReadFile(filepath.Join(out, "model.safetensors"))
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(back, "model.safetensors"))
	require.NoError(t, err)
	require.Equal(t, len(a), len(b))
	require.NotEqual(t, a, b)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing else is left")
}

// The first NaN or infinity of a run is reported with its Call.
func TestNonFiniteIsNamed(t *testing.T) {
	code, stdout, stderr := firstbit(t, "train", "--steps", "3", "--json", "--trace", filepath.Join(t.TempDir(), "t"),
		"--set", "optim.lr=1e30", "--set", "optim.warmup=0")
	require.Zero(t, code, stderr)
	require.Regexp(t, `NaN first written by layers\.0\.ssm\.dt, fwd of step 2 microbatch 0`, stderr)
	jsonOf(t, stdout)
	_, _, stderr = firstbit(t, "train", "--steps", "3", "--json")
	require.Empty(t, stderr)
}

// Two schedules of the fast recipe: different bits, and each replay the same difference and verdict.
func TestFastRecipeReplays(t *testing.T) {
	var reports []string
	for range 2 {
		dir := t.TempDir()
		for _, s := range []string{"1", "2"} {
			code, _, stderr := firstbit(t, "train", "--preset", "pico", "--recipe", "fast", "--schedule", s, "--steps", "2", "--trace", filepath.Join(dir, s), "--level", "kernel", "--json")
			require.Zero(t, code, stderr)
		}
		code, stdout, _ := firstbit(t, "diff", "--json", filepath.Join(dir, "1"), filepath.Join(dir, "2"))
		require.Equal(t, exitDifferent, code)
		reports = append(reports, stdout)
	}
	require.Equal(t, reports[0], reports[1])
	v := jsonOf(t, reports[0])
	first := v["first"].(map[string]any)
	require.Equal(t, "origin", first["verdict"])
	require.EqualValues(t, 1, first["iteration"])
	require.Equal(t, "arrival", v["class"])
}

func TestDiff(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	record := func(name string, args ...string) {
		code, _, stderr := firstbit(t, append([]string{"train", "--steps", "2", "--json", "--trace", path(name)}, args...)...)
		require.Zero(t, code, stderr)
	}
	record("a")
	record("b", "--schedule", "9")
	record("flipped", "--inject", "flip@layers.1.attn.wk step=2 elem=77 bit=3", "--dump", "*.wk")
	record("dumped", "--dump", "*.wk")
	record("rest", "--inject", "flip@layers.1.attn.wk step=2 elem=77 bit=3 at=rest")
	record("metrics", "--level", "metrics", "--inject", "flip@layers.1.attn.wk step=2 elem=77 bit=3")

	code, stdout, _ := firstbit(t, "diff", path("a"), path("b"))
	require.Equal(t, exitSame, code)
	require.Contains(t, stdout, "identical")
	require.Contains(t, stdout, `schedule: "0" | "9"`)

	code, stdout, _ = firstbit(t, "diff", "--json", path("dumped"), path("flipped"))
	require.Equal(t, exitDifferent, code)
	v := jsonOf(t, stdout)
	require.Equal(t, map[string]any{"verdict": "origin", "rank": 0.0, "iteration": 2.0, "microbatch": 0.0, "phase": "fwd", "kind": "op",
		"name": "wk", "scope": "layers.1.attn", "level": "op"}, v["first"])
	require.Equal(t, true, v["confirmed"])
	bytes := v["bytes"].(map[string]any)
	require.EqualValues(t, 77, bytes["element"])
	require.EqualValues(t, 8, bytes["ulps"])
	require.EqualValues(t, 1, bytes["count"])
	require.Equal(t, "hardware", v["class"])
	require.Nil(t, v["pattern"], "there is one rank")

	// Memory that changes after the Call wrote it is not the Call's doing.
	_, stdout, _ = firstbit(t, "diff", "--json", path("a"), path("rest"))
	v = jsonOf(t, stdout)
	require.Equal(t, "memory", v["first"].(map[string]any)["verdict"])
	require.Equal(t, "memory", v["class"])

	// Of a trace that knows metrics only, the advice is to look deeper.
	_, stdout, _ = firstbit(t, "diff", "--json", path("a"), path("metrics"))
	v = jsonOf(t, stdout)
	require.Equal(t, "narrow", v["first"].(map[string]any)["verdict"])
	require.Equal(t, "trace-deeper", v["action"])

	// A file cut short is damaged, not different.
	name := path("b/rank00000_iter000002.jsonl")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, cut := range []int{len(text) / 2, len(text) - 30} {
		require.NoError(t, os.WriteFile(name, text[:cut], 0o644))
		code, _, stderr := firstbit(t, "diff", path("a"), path("b"))
		require.Equal(t, exitBad, code)
		require.Contains(t, stderr, "rank00000_iter000002.jsonl")
	}
}

func TestTreeAndReveal(t *testing.T) {
	_, stdout, _ := firstbit(t, "tree", "pairwise", "-n", "4", "--json")
	require.Equal(t, map[string]any{"order": "pairwise", "n": 4.0, "tree": "((0 1) (2 3))", "depth": 2.0, "slots": 2.0, "ulps": 2.0}, jsonOf(t, stdout))
	for _, kernel := range []string{"matmul", "matmul.wgrad", "grouped_gemm.dprob", "embedding.bwd", "rmsnorm.wgrad"} {
		code, stdout, stderr := firstbit(t, "reveal", kernel, "-n", "9", "--json")
		require.Zero(t, code, stderr)
		v := jsonOf(t, stdout)
		require.Equal(t, true, v["verified"], kernel)
		if kernel != "grouped_gemm.dprob" {
			require.Equal(t, "seq", v["class"], kernel)
		}
	}
	_, stdout, _ = firstbit(t, "reveal", "matmul", "-n", "20", "--plan", "k:lanes(4)/bf16", "--json")
	require.Equal(t, "lanes(4)", jsonOf(t, stdout)["class"])
	_, stdout, _ = firstbit(t, "tree", "arrival", "-n", "5", "--schedule", "3", "--json")
	require.Equal(t, "arrival", jsonOf(t, stdout)["order"])
	require.Contains(t, jsonOf(t, stdout)["resolved"], "given(")
	_, stdout, _ = firstbit(t, "tree", "arrival", "-n", "5", "--schedule", "3")
	require.Contains(t, stdout, "\nby schedule 3: given(")
	_, stdout, _ = firstbit(t, "tree", "splitk(2,seq,exact)", "-n", "5")
	require.Contains(t, stdout, "(exact(0 1 2) exact(3 4))")
	_, stdout, _ = firstbit(t, "tree", "kahan", "-n", "3")
	require.Contains(t, stdout, "no tree of roundings")
}

// Every Call of a run with what its plan may be; one that a plan names has that plan.
func TestListCalls(t *testing.T) {
	_, stdout, stderr := firstbit(t, "list", "--calls", "--preset", "pico", "--layout", "dp=2", "--plan", "layers.1.attn.wk k:exact", "--json")
	kernels := map[string]map[string]any{}
	for _, c := range jsonOf(t, stdout)["calls"].([]any) {
		c := c.(map[string]any)
		kernels[c["phase"].(string)+" "+c["name"].(string)] = c
	}
	require.Equal(t, "k:exact/fp32", kernels["fwd layers.1.attn.wk"]["plan"], stderr)
	require.Contains(t, kernels["fwd layers.1.attn.wk"]["choices"].(map[string]any)["k"], "exact")
	require.Contains(t, kernels["fwd layers.1.attn.wk"]["choices"].(map[string]any)["k"], "mma(hopper)")
	require.NotContains(t, kernels["fwd layers.0.norm"]["choices"].(map[string]any)["d"], "mma(hopper)")
	require.Equal(t, "all_reduce", kernels["opt grad_norm.all"]["kernel"])
	choices := kernels["fwd layers.2.moe.router.topk"]["choices"].(map[string]any)
	require.Equal(t, []any{"native", "low"}, choices["tie"])
	require.Equal(t, []any{"1-1048576"}, kernels["fwd layers.0.ssm.scan"]["choices"].(map[string]any)["chunk"])
	require.NotNil(t, kernels["bwd layers.1.attn.wk.dw"])
	_, _, stderr = firstbit(t, "list", "--preset", "pico")
	require.Contains(t, stderr, "--preset: needs --calls")
}

// Orders on the operands of one Call: exact has no error, an order none from itself; of a gradient and of a collective as well.
func TestOrders(t *testing.T) {
	for call, orders := range map[string][]string{
		"layers.1.attn.wq":                         {"seq", "pairwise", "exact", "splitk(4)/fp32~bf16"},
		"layers.1.attn.wq.dw --phase bwd":          {"seq", "exact", "kahan"},
		"grads.bucket.0 --phase opt --layout dp=8": {"ring", "exact", "tree((((0 1) (2 3)) ((4 5) (6 7))))"},
		"grad_norm.all --phase opt --layout dp=4":  {"pairwise", "exact"},
	} {
		args := append([]string{"orders", "--preset", "pico", "--json"}, strings.Fields(call)...)
		for _, o := range orders {
			args = append(args, "--order", o)
		}
		code, stdout, stderr := firstbit(t, args...)
		require.Zero(t, code, stderr)
		rows := jsonOf(t, stdout)["orders"].([]any)
		require.Len(t, rows, len(orders))
		for i, r := range rows {
			r := r.(map[string]any)
			_, _, formatted := strings.Cut(orders[i], "/")
			require.Equal(t, orders[i] == r["order"].(string), !formatted)
			if strings.HasPrefix(orders[i], "exact") {
				require.Zero(t, r["error"].(map[string]any)["max"])
			}
			require.Zero(t, r["between"].([]any)[i])
			require.Equal(t, strings.Contains(call, "layout"), r["hops"].(float64) > 0)
		}
	}
	_, stdout, _ := firstbit(t, "orders", "layers.1.attn.wq", "--preset", "pico", "--order", "seq", "--order", "lanes(4)", "--svg")
	require.Equal(t, 3, strings.Count(stdout, "<svg"))
	for args, want := range map[string]string{"layers.1.attn.wq": "--order ORDER must be given", "layers.1.attn.wqq --order seq": "layers.1.attn.wq", "layers.0.y --order seq": "adds nothing",
		"layers.1.attn.wq --order sex": `--order "sex": plan item`, "layers.1.attn.wq --order tree((0(1)": "--order", "layers.1.attn.wq --order tree(0)": "not an order of 16 values, but of 1", "layers.1.attn.wq --sum m --order seq": `no reduction "m"`} {
		code, stdout, stderr := firstbit(t, append([]string{"orders", "--preset", "pico"}, strings.Fields(args)...)...)
		require.Equal(t, 2, code, args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want)
	}
}

func TestList(t *testing.T) {
	_, stdout, _ := firstbit(t, "list", "--json")
	v := jsonOf(t, stdout)
	for _, c := range v["causes"].([]any) {
		for _, field := range []string{"id", "part", "title", "symptom", "cause", "diagnose", "cure", "source", "layouts"} {
			require.NotEmpty(t, c.(map[string]any)[field], field)
		}
	}
	for _, f := range v["faults"].([]any) {
		require.NotEmpty(t, f.(map[string]any)["example"])
	}
}
