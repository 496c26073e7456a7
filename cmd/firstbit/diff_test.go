package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/trace"
)

func TestDiffAcrossLayouts(t *testing.T) {
	dir := t.TempDir()
	traced := func(name, layout string, more ...string) string {
		path := filepath.Join(dir, name)
		args := append([]string{"train", "--layout", layout, "--steps", "2", "--set", "batch=1", "--set", "seq=16", "--set", "model.moe.aux=sequence",
			"--level", "op", "--trace", path}, more...)
		code, _, stderr := firstbit(t, args...)
		require.Zero(t, code, stderr)
		return path
	}
	one, tp := traced("one", "dp=1", "--recipe", "canonical"), traced("tp", "tp=2", "--recipe", "canonical")
	code, _, stderr := firstbit(t, "diff", one, tp)
	require.Equal(t, exitBad, code)
	require.Equal(t, "firstbit: layouts differ: \"dp=1\" and \"dp=1,tp=2\": diff --layouts compares what they share\n", stderr)
	code, out, _ := firstbit(t, "diff", "--layouts", one, tp)
	require.Equal(t, exitSame, code, out)
	require.Regexp(t, `layouts +[1-9]\d+ records shared, [1-9]\d+ left out\nidentical`, out)

	code, out, _ = firstbit(t, "diff", "--layouts", "--json", traced("one-fixed", "dp=1"), traced("tp-fixed", "tp=2"))
	require.Equal(t, exitDifferent, code)
	r := jsonOf(t, out)
	require.Equal(t, map[string]any{"steps": 2.0, "of": 2.0}, r["shared"])
	require.Positive(t, r["records"])
	require.Positive(t, r["left_out"])
	require.NotNil(t, r["first"])

	code, _, stderr = firstbit(t, "diff", "--layouts", one)
	require.Equal(t, exitBad, code)
	require.Equal(t, "firstbit: --layouts: one trace: must be two\n", stderr)
	code, out, _ = firstbit(t, "diff", tp) // the copies of one run
	require.Equal(t, exitSame, code, out)
}

// tracing runs pico with a trace in a folder of this name.
func tracing(t *testing.T, path string, more ...string) {
	t.Helper()
	code, _, stderr := firstbit(t, append([]string{"train", "--preset", "pico", "--trace", path}, more...)...)
	require.Zero(t, code, stderr)
}

// A damaged trace is neither identical nor different.
func TestDiffOfDamagedTraces(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	tracing(t, a, "--steps", "2", "--layout", "dp=2")
	tracing(t, b, "--steps", "2", "--layout", "dp=2", "--inject", "flip@layers.1.attn.wq step=2 elem=3 bit=3")
	code, out, _ := firstbit(t, "diff", a, b)
	require.Equal(t, exitDifferent, code)
	require.Contains(t, out, "first at op layers.1.attn.wq, fwd, step 2 microbatch 0 rank 0")

	file := func(rank, step int) string { return filepath.Join(b, trace.FileName(rank, step)) }
	text := func(name string) string {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(text)
	}
	whole := map[string]string{}
	for rank := range 2 {
		for step := range 3 {
			whole[file(rank, step)] = text(file(rank, step))
		}
	}
	for want, change := range map[string]func(){
		trace.FileName(0, 0) + " is missing: run.json lists steps 0-2 of rank 0\n": func() {
			for step := range 3 {
				require.NoError(t, os.Remove(file(0, step)))
			}
		},
		trace.FileName(0, 2) + ": is of rank 1: it stands under another's name\n":      func() { require.NoError(t, os.WriteFile(file(0, 2), []byte(whole[file(1, 2)]), 0o644)) },
		trace.FileName(0, 2) + ": is of iteration 1: it stands under another's name\n": func() { require.NoError(t, os.WriteFile(file(0, 2), []byte(whole[file(0, 1)]), 0o644)) },
		": the file is damaged\n": func() {
			changed := strings.Replace(whole[file(0, 2)], `"numel":16`, `"numel":17`, 1)
			require.NotEqual(t, whole[file(0, 2)], changed)
			require.NoError(t, os.WriteFile(file(0, 2), []byte(changed), 0o644))
		},
		trace.FileName(0, 2) + " beside " + trace.FileName(0, 2) + ".zst: must be one of them\n": func() {
			require.NoError(t, os.WriteFile(file(0, 2)+".zst", nil, 0o644))
		},
	} {
		change()
		for _, args := range [][]string{{a, b}, {b, a}, {b}, {b, b}, {"--layouts", a, b}} {
			code, out, stderr := firstbit(t, append([]string{"diff"}, args...)...)
			require.Equal(t, exitBad, code, want)
			require.Empty(t, out, want)
			require.True(t, strings.HasPrefix(stderr, "firstbit: trace "+b) && strings.HasSuffix(stderr, want), "%s\n%s", want, stderr)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		}
		for name, text := range whole {
			require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		}
		_ = os.Remove(file(0, 2) + ".zst")
	}
	code, _, _ = firstbit(t, "diff", a, b)
	require.Equal(t, exitDifferent, code)
}

// What two traces share is compared, and the answer says what that is.
func TestDiffOfOtherSteps(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	tracing(t, path("long"), "--steps", "3")
	tracing(t, path("short"), "--steps", "2")
	tracing(t, path("late"), "--steps", "3", "--trace-steps", "3")
	tracing(t, path("bad"), "--steps", "3", "--trace-steps", "2-3", "--inject", "flip@layers.1.attn.wq step=3 elem=3 bit=3")
	for _, c := range []struct {
		a, b      string
		code      int
		steps, of float64
		says      string
	}{
		{"long", "short", exitSame, 2, 3, "shared       2 of 3 steps, 1 of 1 ranks\nidentical    "},
		{"late", "long", exitSame, 1, 3, "shared       1 of 3 steps, 1 of 1 ranks\nidentical    "},
		{"bad", "long", exitDifferent, 2, 3, "shared       2 of 3 steps, 1 of 1 ranks\ndifferent    first at op layers.1.attn.wq, fwd, step 3 "},
		{"bad", "short", exitSame, 1, 3, "identical    "},
	} {
		code, out, stderr := firstbit(t, "diff", path(c.a), path(c.b))
		require.Equal(t, c.code, code, "%s %s: %s%s", c.a, c.b, out, stderr)
		require.Contains(t, out, c.says)
		code, out, _ = firstbit(t, "diff", "--json", path(c.a), path(c.b))
		require.Equal(t, c.code, code)
		require.Equal(t, map[string]any{"steps": c.steps, "of": c.of, "ranks": 1.0, "of_ranks": 1.0}, jsonOf(t, out)["shared"])
		require.Nil(t, jsonOf(t, out)["cut"])
		if c.b == "long" && c.a == "late" { // what a trace holds is no configuration
			require.Empty(t, jsonOf(t, out)["config_differences"])
		}
	}
	code, _, stderr := firstbit(t, "diff", path("late"), path("short"))
	require.Equal(t, exitBad, code)
	require.Equal(t, "firstbit: the traces have no step in common: A holds 3, B holds 1 to 2\n", stderr)

	// A run that was killed in its third step, and could not close its trace.
	for _, name := range []string{"long", "bad"} {
		description := filepath.Join(path(name), "run.json")
		text, err := os.ReadFile(description)
		require.NoError(t, err)
		run, err := trace.DecodeRun(text)
		require.NoError(t, err)
		run.Last = nil
		text, err = run.Encode()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(description, text, 0o644))
	}
	last := filepath.Join(path("long"), trace.FileName(0, 3))
	text, err := os.ReadFile(last)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(last, text[:len(text)/2], 0o644))
	cut := "trace " + path("long") + " was cut short: its last whole step is 2"
	for _, args := range [][]string{{path("long")}, {path("long"), path("short")}, {path("short"), path("long")}} {
		code, out, stderr := firstbit(t, append([]string{"diff"}, args...)...)
		require.Equal(t, exitBad, code)
		require.Regexp(t, `truncated `+cut+` unknown \d+ records over 2 steps are equal$`, strings.Join(strings.Fields(out), " "))
		require.Equal(t, "firstbit: "+cut+"; up to there nothing differs, the rest is unknown\n", stderr)
		code, out, _ = firstbit(t, append([]string{"diff", "--json"}, args...)...)
		require.Equal(t, exitBad, code)
		v := jsonOf(t, out)
		require.Equal(t, cut, v["cut"])
		require.Equal(t, false, v["identical"])
		require.Nil(t, v["first"])
	}
	code, out, _ := firstbit(t, "diff", path("bad"), path("late")) // cut where it holds all that the other does
	require.Equal(t, exitDifferent, code)
	require.Regexp(t, `truncated trace .*bad was cut short: its last whole step is 3 different `, strings.Join(strings.Fields(out), " "))
}

// The codes of nvfp4 lie two a byte, and settle a root as others do; what cannot be read leaves the verdict.
func TestDiffOfPackedCodes(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"--precision", "nvfp4", "--steps", "1", "--level", "kernel", "--dump", "*.wq.x.quant"}
	tracing(t, path("a"), args...)
	tracing(t, path("b"), append(args, "--inject", "flip@layers.1.attn.wq.x.quant out=packed elem=9 bit=0 step=1")...)
	code, out, stderr := firstbit(t, "diff", "--json", path("a"), path("b"))
	require.Equal(t, exitDifferent, code, stderr)
	v := jsonOf(t, out)
	require.Equal(t, true, v["confirmed"])
	b := v["bytes"].(map[string]any)
	require.Equal(t, []any{"packed", 9.0, 1.0}, []any{b["output"], b["element"], b["count"]})
	require.Len(t, b["a"], 1, "one hex digit a code")

	dumps, err := filepath.Glob(filepath.Join(path("b"), "dump", "*", "*packed.bin"))
	require.NoError(t, err)
	require.NotEmpty(t, dumps)
	for _, name := range dumps {
		require.NoError(t, os.Truncate(name, 1))
	}
	code, out, _ = firstbit(t, "diff", "--json", path("a"), path("b"))
	require.Equal(t, exitDifferent, code)
	v = jsonOf(t, out)
	require.Equal(t, "origin", v["first"].(map[string]any)["verdict"])
	require.Equal(t, false, v["confirmed"])
	require.Regexp(t, "unconfirmed: trace .*packed.bin: is damaged: its bytes are not those of the record's digest", out)
}
