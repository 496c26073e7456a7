package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
	require.Equal(t, "firstbit: layouts differ: \"dp=1\" and \"dp=1,tp=2\": --layouts compares what they share\n", stderr)
	code, out, _ := firstbit(t, "diff", "--layouts", one, tp)
	require.Equal(t, exitSame, code, out)
	require.Regexp(t, `layouts +[1-9]\d+ records shared, [1-9]\d+ left out\nidentical`, out)

	code, out, _ = firstbit(t, "diff", "--layouts", "--json", traced("one-fixed", "dp=1"), traced("tp-fixed", "tp=2"))
	require.Equal(t, exitDifferent, code)
	r := jsonOf(t, out)
	require.Positive(t, r["shared"])
	require.Positive(t, r["left_out"])
	require.NotNil(t, r["first"])

	code, _, stderr = firstbit(t, "diff", "--layouts", one)
	require.Equal(t, exitBad, code)
	require.Equal(t, "firstbit: --layouts: one trace: must be two\n", stderr)
	code, out, _ = firstbit(t, "diff", tp) // the copies of one run
	require.Equal(t, exitSame, code, out)
}
