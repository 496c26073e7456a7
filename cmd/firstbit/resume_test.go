package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/run"
	"firstbit/train"
	"firstbit/verify"
)

const (
	asProgram = "FIRSTBIT_TEST_AS_PROGRAM"
	asStuck   = "FIRSTBIT_TEST_AS_STUCK" // one that does not end when it is asked to
)

func stuck() int {
	err := interruptible(func(ctx context.Context) error {
		fmt.Println("begun")
		<-ctx.Done()
		fmt.Println("asked")
		time.Sleep(time.Hour)
		return nil
	}, again)
	fmt.Println(err)
	return exitBad
}

// The tests' own binary is the program for those that need another process.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(perform(os.Args[1:], os.Stdout, os.Stderr))
	}
	if os.Getenv(asStuck) != "" {
		os.Exit(stuck())
	}
	os.Exit(m.Run())
}

// A new process under another schedule continues with the same bits; with a fault in the restore the check sees it.
func TestResumeInNewProcesses(t *testing.T) {
	t.Setenv(asProgram, "1")
	first := func(faults []string) (cells []verify.Cell) {
		stop := fmt.Errorf("one cell is enough here")
		_, err := verify.Resume(func(s run.Spec, procs int) (r []train.Result, err error) {
			if len(cells) > 0 {
				return nil, stop
			}
			return inNewProcess(t.Context())(s, procs)
		}, faults, func(c verify.Cell) error {
			cells = append(cells, c)
			return nil
		})
		require.ErrorIs(t, err, stop)
		return cells
	}
	require.True(t, first(nil)[0].OK)
	broken := first([]string{"drop@rng.dropout*"})[0]
	require.False(t, broken.OK)
	require.Contains(t, *broken.Why, "stopped after step 1: step 2: metric")
}

// The traces of a run that continues are those of the run that was not stopped, from the first step that both have.
func TestResumedTracesAlign(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	train := func(args ...string) {
		t.Helper()
		code, _, stderr := firstbit(t, append([]string{"train", "--preset", "pico", "--steps", "4", "--layout", "dp=2", "--trace-steps", "3-4"}, args...)...)
		require.Zero(t, code, stderr)
	}
	train("--save", at("ck"), "--save-every", "2", "--trace", at("a"), "--trace-steps", "1-")
	train("--resume", at("ck/step000002"), "--trace", at("whole"), "--trace-steps", "1-")
	same := func(a, b string) {
		t.Helper()
		code, out, stderr := firstbit(t, "diff", at(a), at(b))
		require.Zero(t, code, out+stderr)
		require.Contains(t, out, "records over 2 steps")
	}
	same("a", "whole")
	same("whole", "a")
	for _, c := range []struct{ drop, with, verdict, name string }{
		{"embed.w.m", "whole", "restore", "embed.w.m"},
		{"embed.w.m", "a", "restore", "embed.w"}, // the Call that reads it
		{"data.consumed", "whole", "restore", "data.consumed"},
		{"data.consumed", "a", "restore", "batch"},
	} {
		to := c.drop + c.with
		train("--resume", at("ck/step000002"), "--trace", at(to), "--trace-steps", "1-", "--inject", "drop@"+c.drop)
		code, out, stderr := firstbit(t, "diff", at(c.with), at(to), "--json")
		require.Equal(t, exitDifferent, code, stderr)
		first := jsonOf(t, out)["first"].(map[string]any)
		require.Equal(t, []any{c.verdict, c.name}, []any{first["verdict"], first["name"]}, c)
	}
	code, _, _ := firstbit(t, "train", "--preset", "pico", "--steps", "2", "--layout", "dp=2", "--trace", at("short"))
	require.Zero(t, code)
	code, _, _ = firstbit(t, "diff", at("short"), at("whole"))
	require.Equal(t, exitBad, code, "with no step in common they are not comparable")
	train("--trace", at("window"))
	train("--resume", at("ck/step000002"), "--trace", at("b"), "--schedule", "3")
	same("window", "b")
}

// What does not fit is refused in one line, before anything is written.
func TestResumeRefusals(t *testing.T) {
	dir := t.TempDir()
	ck := filepath.Join(dir, "ck")
	base := []string{"train", "--preset", "pico", "--steps", "2", "--save", ck, "--save-every", "1"}
	code, _, stderr := firstbit(t, base...)
	require.Zero(t, code, stderr)
	for _, c := range []struct {
		want  string
		flags []string
	}{
		{"batch·micro·dp: 1 was saved, this run has 2: must be the same", []string{"--layout", "dp=2"}},
		{"layout: dp=1 was saved, this run has dp=1,pp=2: recipe fixed has other bits there: --reshard continues all the same", []string{"--layout", "pp=2"}},
		{"precision: fp32 was saved, this run has bf16: must be the same", []string{"--precision", "bf16"}},
		{"model.vocab: 256 was saved, this run has 300: must be the same", []string{"--set", "model.vocab=300"}},
		{"optim.lr: 0.005 was saved, this run has 0.1: must be the same", []string{"--set", "optim.lr=0.1"}},
		{"seed: 1 was saved, this run has 2: must be the same", []string{"--seed", "2"}},
		{"recipe: fixed was saved, this run has fast: must be the same", []string{"--recipe", "fast"}},
		{"plans: nothing was saved, this run has *.dw k:reverse: must be the same", []string{"--plan", "*.dw k:reverse"}},
		{"steps: 2: must be above 2", []string{"--steps", "2"}},
		{"holds step000002, and the run begins after step 1", []string{"--resume", ck + "/step000001", "--save", ck}},
	} {
		trace := filepath.Join(dir, "trace")
		args := append([]string{"train", "--preset", "pico", "--steps", "4", "--resume", ck, "--trace", trace}, c.flags...)
		code, stdout, stderr := firstbit(t, args...)
		require.Equal(t, exitBad, code, c.want)
		require.Empty(t, stdout)
		require.Contains(t, stderr, c.want)
		require.NoDirExists(t, trace)
	}
	code, _, stderr = firstbit(t, base...)
	require.Equal(t, exitBad, code)
	require.Contains(t, stderr, "name another folder or move it away")
	code, out, _ := firstbit(t, "checkpoint", "show", ck, "--json")
	require.Zero(t, code)
	require.EqualValues(t, 2, jsonOf(t, out)["step"])
	code, out, _ = firstbit(t, "checkpoint", "show", ck)
	require.Zero(t, code)
	require.Contains(t, out, "train.step")

	path := filepath.Join(ck, "step000002", "rank00000.safetensors")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[len(b)-1] ^= 4
	require.NoError(t, os.WriteFile(path, b, 0o644))
	code, _, stderr = firstbit(t, "train", "--preset", "pico", "--steps", "4", "--resume", ck)
	require.Equal(t, exitBad, code)
	require.Contains(t, stderr, path+": tensor ")
	require.Contains(t, stderr, "step000001 is whole")
}

// A run goes on with the corpus and the weights that it had, wherever they lie now, and with no others.
func TestResumeGoesByContents(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("a.txt", []byte(strings.Repeat("some text; ", 99)), 0o644))
	require.NoError(t, os.WriteFile("b.txt", []byte(strings.Repeat("other text ", 99)), 0o644))
	train := func(args ...string) (int, string) {
		t.Helper()
		code, _, stderr := firstbit(t, append([]string{"train", "--preset", "pico"}, args...)...)
		return code, stderr
	}
	for _, args := range [][]string{{"--steps", "1", "--export", "w"}, {"--steps", "2", "--export", "v"},
		{"--steps", "1", "--data", "a.txt", "--weights", "w", "--save", "ck"}} {
		code, stderr := train(args...)
		require.Zero(t, code, stderr)
	}
	require.NoError(t, os.CopyFS("other", os.DirFS("w")))
	require.NoError(t, os.Symlink("a.txt", "c.txt"))
	for _, c := range []struct{ data, weights, want string }{
		{"a.txt", "w", ""},
		{"./a.txt", "./w/", ""},
		{filepath.Join(here, "a.txt"), filepath.Join(here, "w"), ""},
		{"c.txt", "other", ""},
		{"b.txt", "w", `^firstbit: checkpoint ck/step000001: data: a.txt \([0-9a-f]{32}\) was saved, this run has b.txt \([0-9a-f]{32}\): must be the same\n$`},
		{"", "w", `data: a.txt \([0-9a-f]{32}\) was saved, this run has [0-9a-f]{32}: must be the same`},
		{"a.txt", "v", `weights: w \([0-9a-f]{32}\) was saved, this run has v \([0-9a-f]{32}\): must be the same`},
		{"a.txt", "", `weights: w \([0-9a-f]{32}\) was saved, this run has nothing: must be the same`},
	} {
		args := []string{"--steps", "2", "--resume", "ck"}
		for _, x := range [][]string{{"--data", c.data}, {"--weights", c.weights}} {
			if x[1] != "" {
				args = append(args, x...)
			}
		}
		code, stderr := train(args...)
		require.Equal(t, c.want != "", code == exitBad, stderr)
		require.Regexp(t, c.want, stderr)
	}
}

// What no recipe promises goes on when asked to, and says what is another way.
func TestReshard(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	flags := []string{"train", "--steps", "4", "--set", "batch=2", "--set", "model.dropout=0.1", "--set", "model.moe.jitter=0.1"}
	train := func(args ...string) string {
		t.Helper()
		code, _, stderr := firstbit(t, append(flags[:len(flags):len(flags)], args...)...)
		require.Zero(t, code, stderr)
		return stderr
	}
	require.Empty(t, train("--layout", "dp=2", "--save", at("a"), "--save-every", "2"))
	require.Equal(t, "firstbit: resharded from dp=2 to dp=1,tp=2,ep=2: the orders of addition over ranks and microbatches are others; "+
		"random streams that nobody had drawn from: dropout.tp.tp1, jitter.ep.ep1\n",
		train("--set", "micro=2", "--layout", "tp=2,ep=2", "--resume", at("a/step000002"), "--reshard", "--save", at("b")))
	require.Equal(t, "firstbit: resharded from dp=1,tp=2,ep=2 to dp=2: the orders of addition over ranks and microbatches are others\n",
		train("--layout", "dp=2", "--steps", "6", "--resume", at("b"), "--reshard"))
	require.Empty(t, train("--layout", "dp=2", "--resume", at("a/step000002"), "--reshard"), "the same layout")
	code, out, _ := firstbit(t, "checkpoint", "show", at("b"))
	require.Zero(t, code)
	require.Regexp(t, `layers.1.attn.wq +fp32 +\[32 16\] +[0-9a-f]{32}  part 2 of 2 along 1\n`, out)
	code, _, stderr := firstbit(t, append(flags, "--reshard")...)
	require.Equal(t, exitBad, code)
	require.Contains(t, stderr, "--reshard: needs --resume DIR")
}

// A checkpoint from before there were places or an optimizer's step continues on its own layout.
func TestOldCheckpoint(t *testing.T) {
	dir := t.TempDir()
	flags := []string{"train", "--preset", "pico", "--steps", "3", "--precision", "bf16"}
	code, _, stderr := firstbit(t, append(flags, "--save", dir, "--save-every", "1")...)
	require.Zero(t, code, stderr)
	c, err := checkpoint.Read(filepath.Join(dir, "step000001"))
	require.NoError(t, err)
	var tensors []checkpoint.Tensor
	for _, x := range c.Ranks[0].Tensors {
		if x.Name != "optim.step" {
			tensors = append(tensors, x)
		}
	}
	old := filepath.Join(dir, "old")
	s, err := checkpoint.NewSaver(old, 0, 1, 0, *c.Manifest)
	require.NoError(t, err)
	require.NoError(t, s.Put(0, 1, tensors))
	again := filepath.Join(dir, "again")
	code, _, stderr = firstbit(t, append(flags, "--resume", old, "--save", again)...)
	require.Zero(t, code, stderr)
	want, err := checkpoint.Open(filepath.Join(dir, "step000003"))
	require.NoError(t, err)
	got, err := checkpoint.Open(again)
	require.NoError(t, err)
	require.Empty(t, want.Differ(got.Manifest))
	code, _, stderr = firstbit(t, append(flags, "--resume", old, "--layout", "pp=2", "--reshard")...)
	require.Equal(t, exitBad, code)
	require.Contains(t, stderr, "layout: dp=1 was saved, this run has dp=1,pp=2: the checkpoint does not say where its tensors lie, so it continues on its own layout only")
}
