package recipe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/experiments"
	"firstbit/run"
)

func read(t *testing.T, name string) *Recipe {
	t.Helper()
	r, err := Read(filepath.Join("testdata", name), nil)
	require.NoError(t, err)
	return r
}

func parse(t *testing.T, text string, env ...Setting) *Recipe {
	t.Helper()
	r, err := Parse([]byte(text), ".sh", env)
	require.NoError(t, err, text)
	return r
}

func causes(t *testing.T, r *Recipe) (ids []string) {
	t.Helper()
	s, err := r.Small()
	require.NoError(t, err)
	exposures, err := r.Exposures(s, "small.json")
	require.NoError(t, err)
	for _, e := range exposures {
		ids = append(ids, e.Cause)
	}
	return ids
}

// Every cause has one predicate, of words that there are, and no argument has two meanings.
func TestTables(t *testing.T) {
	var catalog, have []string
	for _, c := range experiments.Causes() {
		catalog = append(catalog, c.ID)
	}
	r := parse(t, "--num-layers 2")
	for _, x := range rows {
		have = append(have, x.cause)
		for _, literal := range strings.Fields(x.when) {
			require.NotPanics(t, func() { r.holds(literal) }, x.cause)
		}
		require.Equal(t, x.kind == byRecipe, x.from > 0, "%s: only what a recipe decides begins at a number of ranks", x.cause)
	}
	require.ElementsMatch(t, catalog, have)
	for _, x := range traits {
		used := slices.ContainsFunc(rows, func(w row) bool {
			return slices.Contains(strings.FieldsFunc(w.when, func(c rune) bool { return strings.ContainsRune(" !|", c) }), x.name)
		})
		require.True(t, used, x.name)
	}
	require.Panics(t, func() { r.holds("hybird") })

	var names []string
	for _, f := range new(job).fields() {
		names = append(names, f.name)
	}
	names = append(names, harmless...)
	slices.Sort(names)
	require.Equal(t, slices.Compact(slices.Clone(names)), names)
	for _, u := range rules {
		require.NotEmpty(t, u.why())
	}
	for _, argument := range hfNames {
		require.Contains(t, names, argument)
	}
}

// A recipe with deterministic mode and its environment is exposed to another allocation's rings alone, which the reference calls open too.
// Each part of it that is taken away exposes it again.
func TestDeterministicRecipe(t *testing.T) {
	text, err := os.ReadFile("testdata/deterministic.sh")
	require.NoError(t, err)
	require.Equal(t, []string{"ring-permutation"}, causes(t, parse(t, string(text))))
	require.Empty(t, parse(t, string(text)).Rejected())
	require.Equal(t, []string{"ring-permutation"}, causes(t, read(t, "nemotron-pico.sh")), "a public one")
	for _, c := range []struct{ from, to, want string }{
		{"--deterministic-mode", "", "embedding-scatter"},
		{"NVTE_ALLOW_NONDETERMINISTIC_ALGO=0", "NVTE_ALLOW_NONDETERMINISTIC_ALGO=1", "dprob-atomics"},
		{"CUBLAS_WORKSPACE_CONFIG=:4096:8", "CUBLAS_WORKSPACE_CONFIG=:0:0", "wgrad-splitk"},
		{"NCCL_ALGO=Ring", "NCCL_ALGO=Tree", "scale-collective"},
		{"MAMBA_DETERMINISTIC=1", "MAMBA_DETERMINISTIC=0", "ssd-chunk"},
		{"CAUSAL_CONV1D_DETERMINISTIC=1", "CAUSAL_CONV1D_DETERMINISTIC=0", "mamba-atomics"},
		{"--moe-grouped-gemm", "--moe-grouped-gemm --moe-router-fusion", "aux-loss-atomics"},
	} {
		r := parse(t, strings.Replace(string(text), c.from, c.to, 1))
		require.Contains(t, causes(t, r), c.want, "%s for %s", c.to, c.from)
		require.Equal(t, c.to != "", len(r.Rejected()) == 1, c.to)
	}
	// What deterministic mode fills in need not be set.
	bare := text[strings.Index(string(text), "torchrun"):]
	require.Equal(t, []string{"ring-permutation"}, causes(t, parse(t, string(bare))))
}

// The recipe that leaves all open is exposed to every cause that a recipe decides but one that excludes the others.
func TestEverythingExposed(t *testing.T) {
	var want []string
	for _, x := range rows {
		if x.kind == byRecipe {
			want = append(want, x.cause)
		}
	}
	require.Equal(t, want, causes(t, read(t, "everything.sh")))
	require.Empty(t, causes(t, parse(t, "torchrun --nproc-per-node 1 x.py --num-layers 2 --deterministic-mode")), "one rank has no ring")
}

// Every small recipe is trained as it is, and deterministic mode takes it.
func TestSmallRecipes(t *testing.T) {
	files, err := filepath.Glob("testdata/*")
	require.NoError(t, err)
	require.Greater(t, len(files), 12)
	for _, file := range files {
		s, err := read(t, filepath.Base(file)).Small()
		require.NoError(t, err, file)
		spec := run.Spec{Config: s.Config, Layout: s.Layout, Plans: s.Plans, Checks: run.Checks{Deterministic: true, Strict: true}}
		require.NoError(t, spec.Check(), file)
		require.LessOrEqual(t, s.Layout.World(), 16, file)
	}
}

func TestSmallKeepsThePattern(t *testing.T) {
	for _, c := range []struct{ arguments, pattern, layout, precision string }{
		{"--num-layers 96 --pipeline-model-parallel-size 16 --fp16", "*-", "dp=1,pp=2", "fp16"},
		{"--num-layers 32 --num-experts 8 --bf16", "*E", "dp=1", "bf16"},
		{"--num-layers 61 --num-experts 8 --moe-layer-freq [0]*3+[1]*58 --mtp-num-layers 1 --bf16 --fp8-format e4m3 --fp8-recipe mxfp8", "*-E/*E", "dp=1", "mxfp8"},
		{"--num-layers 4 --num-experts 8 --moe-layer-freq 2 --bf16 --fp4-format e2m1", "*-E", "dp=1", "nvfp4"},
		{"--hybrid-layer-pattern 'M-M*-|M-M*-/MM/MM' --pipeline-model-parallel-size 2", "M-*/M", "dp=1,pp=2", "fp32"},
		{"--num-layers 8 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 4 --tensor-model-parallel-size 8", "*-*-", "dp=1,tp=2,pp=2,vpp=2", "fp32"},
		{"--num-layers 8 --num-experts 4 --expert-model-parallel-size 4 --expert-tensor-parallel-size 2 --context-parallel-size 8", "*E", "dp=2,cp=2,ep=2,etp=2", "fp32"},
	} {
		s, err := parse(t, c.arguments).Small()
		require.NoError(t, err, c.arguments)
		require.Equal(t, []string{c.pattern, c.layout, c.precision}, []string{s.Config.Model.Pattern, s.Layout.String(), s.Config.Precision}, c.arguments)
	}
}

// scripts all start the same, and name a folder DIR.
var scripts = []string{
	"--num-layers 12 --bf16",
	"--num-layers 12\n--bf16\n",
	"python pretrain.py --num-layers=12 --bf16",
	"N=12; torchrun a.py --num-layers $N ${X:---bf16}",
	"A=(--num-layers 12); A+=(\"--bf16\"); srun bash -c \"python a.py ${A[*]}\"",
	"sbatch <<EOF\n#!/bin/bash\nsrun python a.py --num-layers 12 \\\n  --bf16\nEOF",
	"run() { exec env X=1 python a.py --num-layers 12 \"$@\"; }\nrun --bf16",
	"if [ ! -f data ]; then echo none; exit 1; fi\nset -eu; cd /nowhere\npython a.py --num-layers 12 --bf16 | tee log",
	"case $S in big) L=96;; *) L=12;; esac\nfor i in 1 2; do T=\"python a.py --num-layers $L --bf16\"; done; eval $T",
	"python -m torch.distributed.run --nproc_per_node 8 a.py --num-layers 12 --bf16 > DIR/log 2>&1 &",
	"touch DIR/x; mkdir DIR/y; python a.py --num-layers 12 --bf16 > >(tee DIR/z)",
	"GPT_ARGS=\"--num-layers 12 --bf16\"; OTHER=(--bf16)",
	"python eval.py --x\npython a.py --num-layers 12 --bf16",
}

// What a script would start is found whatever the shell makes of it, and nothing of it acts.
func TestScripts(t *testing.T) {
	dir := t.TempDir()
	for _, text := range scripts {
		text = strings.ReplaceAll(text, "DIR", dir)
		r := parse(t, text)
		require.Equal(t, 12, r.layers, text)
		require.True(t, r.bf16, text)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is written")

	r := parse(t, "export NCCL_ALGO=Tree HOME=/x\nMAMBA_DETERMINISTIC=1\nNVTE_FLASH_ATTN=1 torchrun --nproc-per-node 4 --nnodes=$N a.py --num-layers 1", Setting{"N", "3"})
	require.Equal(t, []Setting{{"N", "3"}, {"NCCL_ALGO", "Tree"}, {"NVTE_FLASH_ATTN", "1"}}, r.Env, "a variable that is not exported does not reach the job")
	require.Equal(t, 12, r.world)
	require.Contains(t, r.Unknown, Unknown{"MAMBA_DETERMINISTIC=1", "set and not exported: the job does not see it"})
}

// What is not mapped is named, and changes no exposure to safety.
func TestUnknownIsNamed(t *testing.T) {
	r := parse(t, "source common.sh\nexport NVTE_NEW_THING=1\npython a.py --num-layers 2 --new-kernel fast --bf16 --seq-length $T --num-attention-heads $H")
	var named []string
	for _, u := range r.Unknown {
		named = append(named, u.Argument)
	}
	for _, want := range []string{"source common.sh", "--new-kernel fast", "NVTE_NEW_THING=1", "--num-attention-heads", "no --disable-bias-linear", "no --normalization", "no --nproc-per-node"} {
		require.Contains(t, named, want)
	}
	require.Contains(t, read(t, "config.json").Unknown[0].Argument, "arguments of the launch")
	require.Contains(t, causes(t, read(t, "config.json")), "scale-collective", "a config.json says nothing of ranks, so they are not taken for one")
}

func TestOtherForms(t *testing.T) {
	r := read(t, "model_config.yaml")
	require.Equal(t, []Setting{{"NCCL_ALGO", "Tree"}, {"NVTE_ALLOW_NONDETERMINISTIC_ALGO", "1"}}, r.Env)
	require.Nil(t, r.find("--finetune"))
	require.Equal(t, []string{"mlp", "moe"}, r.find("--recompute-modules").Values)
	s, err := r.Small()
	require.NoError(t, err)
	require.Equal(t, []string{"grads.bucket.? ranks:nccltree"}, s.Plans)

	s, err = read(t, "config.json").Small()
	require.NoError(t, err)
	require.Equal(t, []any{"*E", "bf16", 2, 0.02}, []any{s.Config.Model.Pattern, s.Config.Precision, s.Config.Model.KVHeads, s.Config.Model.MoE.AuxCoeff})
}

func TestBadRecipes(t *testing.T) {
	for _, c := range []struct{ text, ext, want string }{
		{"", ".sh", "empty"},
		{"echo hello", ".sh", "no arguments of Megatron-LM"},
		{"if then", ".sh", "must be a shell script"},
		{"while :; do x=1; done", ".sh", "does not end"},
		{"f() { f; }; f", ".sh", "does not end"},
		{"x=" + strings.Repeat("a", 600) + strings.Repeat("\nx=$x$x", 5) + "\n:", ".sh", "keeps too much"},
		{"python a.py {1..9}{1..9}{1..9}{1..9}", ".sh", "braces"},
		{"python a.py --x {1..999999999}", ".sh", "braces"},
		{"--num-layers many", ".sh", `--num-layers "many": must be a whole number`},
		{"--clip-grad -1", ".sh", `--clip-grad "-1": must be a number from 0 on`},
		{"--bf16 maybe", ".sh", `--bf16 "maybe": must be without a value`},
		{"--bf16 --fp16", ".sh", "exclude each other"},
		{"--tensor-model-parallel-size 0", ".sh", "must be from 1"},
		{"MODEL_ARGS: 3", ".yaml", "must be a mapping"},
		{"MODEL_ARGS: {a: 3}", ".yaml", "must begin with --"},
		{"MODEL_ARGS: {--a: {b: 3}}", ".yaml", "must have a value"},
		{"a: [", ".yaml", "must be YAML"},
		{"{", ".json", "must be a Hugging Face config.json"},
		{`{"x": 1}`, ".json", "no field"},
		{`{"num_hidden_layers": "many"}`, ".json", "--num-layers"},
	} {
		r, err := Parse([]byte(c.text), c.ext, nil)
		require.ErrorContains(t, err, c.want, "%.60s: %v", c.text, r)
		require.NotContains(t, err.Error(), "\n")
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			f.Add(text, filepath.Ext(file))
		}
	}
	for _, text := range scripts {
		f.Add([]byte(text), ".sh")
	}
	f.Add([]byte("a=(${b[@]} {x,y}) ; for i in ${a[@]}; do eval \"c=$((i**2))\"; done; bash -c 'python a.py --x $c'"), ".sh")
	f.Fuzz(func(t *testing.T, text []byte, ext string) {
		r, err := Parse(text, ext, nil)
		if err != nil {
			return
		}
		s, err := r.Small()
		if err != nil {
			return
		}
		_, err = r.Exposures(s, "small.json")
		require.NoError(t, err)
		require.NoError(t, s.Config.Validate())
	})
}
