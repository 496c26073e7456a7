package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalize(t *testing.T) {
	pair := []string{"localize", "--a", "--preset pico --steps 3 --schedule 1 --plan 'grads.* ranks:arrival'", "--b", "--preset pico --steps 3 --schedule 2 --plan 'grads.* ranks:arrival'"}
	code, out, stderr := firstbit(t, append(pair, "--scale", "2,4", "--json")...)
	require.Equal(t, exitDifferent, code, stderr)
	v := jsonOf(t, out)
	require.Equal(t, []any{map[string]any{"dp": 2.0, "identical": true}, map[string]any{"dp": 4.0, "identical": false}}, v["scale"], "two addends have one sum in any order")
	first := v["first"].(map[string]any)
	require.Equal(t, []any{"origin", "collective", "grads"}, []any{first["verdict"], first["kind"], first["scope"]})
	require.Equal(t, []any{"arrival", true}, []any{v["class"], v["confirmed"]})
	require.Len(t, v["levels"], 5)

	code, out, stderr = firstbit(t, "localize", "--a", "--preset pico --steps 2", "--b", "--preset pico --steps 2")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "identical")
}

func TestLocalizeBesideARecordedRun(t *testing.T) {
	rec := filepath.Join(t.TempDir(), "rec")
	code, _, stderr := firstbit(t, "train", "--preset pico", "--steps", "4", "--trace", rec, "--level", "metrics")
	require.Equal(t, exitBad, code, "the flag of one word: %s", stderr)
	code, _, stderr = firstbit(t, "train", "--preset", "pico", "--steps", "4", "--trace", rec, "--level", "metrics")
	require.Zero(t, code, stderr)
	code, out, stderr := firstbit(t, "localize", "--watch", rec, "--b", "--preset pico --steps 4")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "identical")
	code, out, _ = firstbit(t, "localize", "--watch", rec, "--b", "--preset pico --steps 4 --inject 'flip@layers.3.mlp.w1 step=3 elem=40 bit=20'")
	require.Equal(t, exitDifferent, code)
	require.Contains(t, out, "first at kernel layers.3.mlp.w1, fwd, step 3")
	code, out, _ = firstbit(t, "localize", "--watch", rec, "--b", "--preset pico --steps 4 --inject 'flip@optim.embed.w at=rest step=3 phase=opt elem=5 bit=20'")
	require.Equal(t, exitDifferent, code, "state parts where no metric does")
	require.Contains(t, out, "step 3")
}

func TestLocalizeRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--a", "--preset pico"}, "--b"},
		{[]string{"--a", "--preset pico --stesp 3", "--b", "--preset pico"}, "--a: unknown flag: --stesp: did you mean --steps?"},
		{[]string{"--a", "--preset 'pico", "--b", "--preset pico"}, "quoted as in a shell"},
		{[]string{"--a", "pico", "--b", "--preset pico"}, `--a: "pico": must be flags of train`},
		{[]string{"--a", "--preset pico", "--b", "--preset pico --trace x"}, "--b: --trace: localize says what its runs write"},
		{[]string{"--a", "--preset pico", "--b", "--preset pico", "--scale", "4,2"}, `--scale "4,2": must be numbers of ranks`},
		{[]string{"--a", "--preset pico", "--b", "--preset pico", "--scale", "100000000"}, "--scale 100000000: layout"},
		{[]string{"--watch", "none", "--b", "--preset pico"}, "trace none"},
		{[]string{"--watch", "none", "--a", "--preset pico", "--b", "--preset pico"}, "exclude it"},
	} {
		code, out, stderr := firstbit(t, append([]string{"localize"}, c.args...)...)
		require.Equal(t, exitBad, code, "%v %s", c.args, stderr)
		require.Contains(t, stderr, c.want)
		require.Empty(t, out)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
}

func TestExtract(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wq.json")
	code, out, stderr := firstbit(t, "extract", "layers.3.mlp.w1", "--preset", "pico", "--steps", "3", "--step", "2", "-o", file, "--inject", "flip@layers.3.mlp.w1 step=2 elem=5 bit=3")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "fwd layers.3.mlp.w1 of step 2, kernel matmul")
	code, out, _ = firstbit(t, "extract", "--rerun", file)
	require.Equal(t, exitDifferent, code)
	require.Contains(t, out, "y[5]: kept ")
	require.Contains(t, out, "1 of 1536 elements differ")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"layers.3.mlp.w1"}, "CALL and --output FILE must be given"},
		{[]string{"layers.3.mlp.w9", "--preset", "pico", "-o", file + "2"}, "nearest layers.3.mlp.w"},
		{[]string{"layers.3.mlp.w1", "--preset", "pico", "--steps", "2", "--step", "3", "-o", file + "2"}, "step 3: must be from 1 to 2"},
		{[]string{"layers.3.mlp.w1", "--preset", "pico", "--phase", "foo", "-o", file + "2"}, `--phase "foo"`},
		{[]string{"layers.3.mlp.w1", "--preset", "pico", "--trace", "x", "-o", file + "2"}, "--trace: extract writes the Call alone"},
		{[]string{"--rerun", file, "x"}, "exclude it"},
		{[]string{"--rerun", file + "2"}, "no such file"},
	} {
		code, out, stderr := firstbit(t, append([]string{"extract"}, c.args...)...)
		require.Equal(t, exitBad, code, "%v %s", c.args, out)
		require.Contains(t, stderr, c.want)
		require.NoFileExists(t, file+"2")
	}
}
