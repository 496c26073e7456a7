package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a fault, a plan or a dump names and no run has is exit 2 and one line: before the run where it can be known, or else after it, with the
// nearest names there are and all results printed.
func TestWhatNeverOccurs(t *testing.T) {
	dir := t.TempDir()
	pico := func(more ...string) []string { return append([]string{"train", "--preset", "pico", "--json"}, more...) }
	saved := filepath.Join(dir, "saved")
	code, _, stderr := firstbit(t, pico("--steps", "2", "--set", "model.dropout=0.1", "--save", saved)...)
	require.Zero(t, code, stderr)
	resume := pico("--steps", "3", "--set", "model.dropout=0.1", "--resume", saved)
	inject := func(fault string, args ...string) []string {
		if args == nil {
			args = pico("--steps", "1")
		}
		return append(args, "--inject", fault)
	}
	traced := func(name string, more ...string) []string {
		return pico(append([]string{"--steps", "2", "--trace", filepath.Join(dir, name)}, more...)...)
	}
	for _, c := range []struct {
		args []string
		ran  bool
		want string
	}{
		{inject("flip@layers.9.moe.*"), true, "no Call of that name: nearest layers.2.moe."},
		{inject("flip@wqq"), true, "no Call of that name: nearest layers.1.attn.wq"},
		{inject("flip@*.wq.dw"), true, "no Call of that name in phase fwd: must be phase=bwd"},
		{inject("flip@layers.3.mlp.w1", pico("--steps", "1", "--layout", "pp=2")...), true, "no Call of that name on rank 0: must be rank=1"},
		{inject("flip@grad_norm.* phase=opt micro=1", pico("--steps", "1", "--set", "micro=2")...), true, "what it names is not in its steps, microbatch and ranks"},
		{inject("order@*.router.topkk tie=low"), true, "no Call of that name: nearest layers.2.moe.router.topk"},
		{inject("alias@layers.1.attn.wq with=layers.1.attn.wkk"), true, "no Call of that name: nearest layers.1.attn.wk"},
		{append(pico("--steps", "1"), "--plan", "*.dprobs tiles:arrival"), true, `--plan "*.dprobs tiles:arrival": no Call of that name: nearest layers.2.moe.experts.grouped_gemm.dprob`},
		{traced("a", "--dump", "*.wqq"), true, `--dump "*.wqq": no Call of that name: nearest`},
		{traced("b", "--dump", "*.wq.dw", "--level", "semantic"), true, `--dump "*.wq.dw": what it names is traced from level op on, not at semantic`},
		{inject("drop@rng.dropuot.*", resume...), true, "no state of that name: nearest rng.dropout.tp"},
		{inject("seed@rngs.*", resume...), true, "no random stream of that name: nearest rng.dropout.tp"},
		{inject("draw@optim.step", resume...), true, "no random stream of that name: nearest rng.dropout.tp"},
		{inject("copy@optim.stop from=0", resume...), true, "no state of that name: nearest optim.step"},

		{inject("copy@optim.step from=1", resume...), false, "from-rank: 1: must be from 0 to 0, the ranks that were saved"},
		{inject("flip@layers.1.attn.wq step=2", resume...), false, "step: must be from 3 to 3, the steps of the run"},
		{append(resume, "--trace", filepath.Join(dir, "d"), "--trace-steps", "1"), false, `--trace-steps "1": must be from 2 to 3`},
		{inject("flip@layers.1.attn.wq step=2"), false, "step: must be from 1 to 1, the steps of the run"},
		{inject("order@*.topk tie=low step=2-"), false, "step: must be from 1 to 1, the steps of the run"},
		{inject("flip@layers.1.attn.wq rank=1"), false, `rank: 1: must be from 0 to 0, the ranks of layout "dp=1"`},
		{inject("flip@layers.1.attn.wq micro=1"), false, "micro: 1: must be from 0 to 0"},
		{inject("flip@layers.1.attn.wq bit=32"), false, "bit: 32: must be from 0 to 31: no format of precision fp32 is wider"},
		{inject("flip@layers.1.attn.wq bit=16 step=3", pico("--steps", "3", "--precision", "bf16")...), false, "bit=16: must be from 0 to 15: output y is bf16"},
		{inject("flip@layers.1.attn.wq out=z"), false, `has no output "z": must be y`},
		{inject("order@*.topk ties=low step=3", pico("--steps", "3")...), false, `plan has no choice "ties": did you mean tie?`},
		{inject("drop@optim.step"), true, "no Call of that name: a state has it, and --resume DIR restores states"},
		{inject("drop@layers.1.attn.wq.dw", resume...), true, "no state of that name in phase load: must be phase=bwd"},
		{inject("drop@optim.step step=3", resume...), true, "no Call of that name in a step: must be phase=load"},
		{inject("repeat@layers.1.attn.wqq"), true, "no Call of that name: nearest layers.1.attn.wq"},
		{inject("draw@rng.dropuot.tp", pico("--steps", "1", "--set", "model.dropout=0.1")...), true, "no random stream of that name: nearest rng.dropout.tp"},
		{inject("draw@rng.dropout.tp phase=rec", pico("--steps", "1", "--set", "model.dropout=0.1")...), true, "what it names is not in its steps, microbatch and ranks"},
		{inject("late@layers.3.mlp.w1 pp=0", pico("--steps", "1", "--layout", "pp=2")...), true, "no Call of that name on pp=0: must be rank=1"},
		{append(pico("--steps", "1", "--layout", "pp=2"), "--plan", "*.dprob tiles:arrival; pp=0"), true, "no Call of that name on pp=0: must be rank=1"},
		{append(pico("--steps", "1"), "--plan", "*.dprob rank=1 tiles:arrival"), false, `rank: 1: must be from 0 to 0, the ranks of layout "dp=1"`},
		{append(pico("--steps", "1"), "--plan", "*.dprob tiles:arrival; step=2"), false, "step: must be from 0 to 1, the steps of the run"},
		{inject("repeat@layers.1.attn.wq tp=1"), false, `tp=1: no rank of layout "dp=1" is there`},
		{inject("repeat@grads.bucket.0 rank=1", pico("--steps", "1", "--layout", "dp=2")...), false, "a collective runs again on all of its ranks"},
		{inject("repeat@pipeline.*", pico("--steps", "1", "--layout", "pp=2")...), false, "a message is sent once"},
		{inject("late@grads.bucket.0", pico("--steps", "1", "--layout", "dp=2")...), false, "is a collective or a message"},
		{inject("draw@rng.* when=before"), false, "when: is about a restore: a step has step=, micro= and phase="},
		{inject("copy@layers.1.attn.wq from=0 from-step=1", pico("--steps", "2")...), false, "from-rank: is about a restore"},
		{inject("copy@optim.step out=value", resume...), false, "out: a state has one"},
		{inject("copy@layers.1.attn.wq"), false, "from-step: must be given"},
		{inject("copy@layers.1.attn.wq from-step=1"), false, "from-step: must be from 1 to 0"},
		{inject("copy@optim.step from-step=7", resume...), false, "from-step: checkpoint"},
		{inject("set@layers.2.moe.router.topk out=index value=nan"), false, "value=NaN: the output holds whole numbers"},
		{inject("unwritten@layers.1.attn.wq rows=99-"), false, "rows=99-: the output has rows from 0 to"},
		{inject("early@layers.1.attn.wq in=z"), false, `has no input "z"`},
		{inject("flip@optim.step phase=load"), false, "needs --resume DIR"},
	} {
		code, stdout, stderr := firstbit(t, c.args...)
		require.Equal(t, exitBad, code, c.args)
		require.Contains(t, stderr, c.want, c.args)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		if c.ran {
			require.Equal(t, false, jsonOf(t, stdout)["ok"], c.args)
		} else {
			require.Empty(t, stdout, c.args)
		}
	}
}

// How often a fault acted, and how often that changed anything, stands in the JSON and in the trace's description. One that leaves the same bits
// is no error.
func TestFaultsAreCounted(t *testing.T) {
	dir := t.TempDir()
	pico := func(more ...string) []string { return append([]string{"train", "--preset", "pico", "--json"}, more...) }
	faults := func(text string) string {
		var v struct{ Faults json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		var compact strings.Builder
		require.NoError(t, json.NewEncoder(&compact).Encode(v.Faults))
		return strings.TrimSpace(compact.String())
	}
	saved, path := filepath.Join(dir, "saved"), filepath.Join(dir, "trace")
	code, stdout, stderr := firstbit(t, pico("--steps", "2", "--save", saved, "--trace", path, "--inject", "flip@layers.1.attn.wq elem=3", "--inject", "order@layers.1.attn.wq k=seq")...)
	require.Zero(t, code, stderr)
	const want = `[{"spec":"flip@layers.1.attn.wq elem=3","acted":2,"changed":2},{"spec":"order@layers.1.attn.wq k=seq","acted":2,"changed":0}]`
	require.Equal(t, want, faults(stdout))
	require.Equal(t, "firstbit: --inject \"order@layers.1.attn.wq k=seq\": acted 2× and left the same bits\n", stderr)
	run, err := os.ReadFile(filepath.Join(path, "run.json"))
	require.NoError(t, err)
	require.Equal(t, want, faults(string(run)))

	for fault, changed := range map[string]string{
		"set@optim.step value=2": "0", "set@optim.step value=1": "1", "copy@optim.step from=0": "0",
		"drop@train.step":     "1", // the run began with another number
		"drop@layers.0.ssm.d": "1",
	} {
		code, stdout, stderr := firstbit(t, pico("--steps", "3", "--resume", saved, "--inject", fault)...)
		require.Zero(t, code, "%s: %s", fault, stderr)
		require.Contains(t, faults(stdout), `"acted":1,"changed":`+changed, fault)
		require.Equal(t, changed == "0", strings.Contains(stderr, "left the same bits"), fault)
	}
	code, stdout, _ = firstbit(t, pico("--steps", "1")...)
	require.Zero(t, code)
	require.Equal(t, "[]", faults(stdout))
}
