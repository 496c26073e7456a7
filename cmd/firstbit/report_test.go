package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReportRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"a", "b"}, "-o: must be given: the FILE for the page, or --json"},
		{[]string{"a", "-o", "x"}, "report: 1 traces: must be A and B, or --a and --b, or --cause"},
		{[]string{"-o", "x"}, "report: 0 traces: must be A and B, or --a and --b, or --cause"},
		{[]string{"a", "b", "--cause", "bit-flip", "--json"}, "report: 2 traces: must be A and B, or --a and --b, or --cause"},
		{[]string{"--a", "--steps 1", "-o", "x"}, "--a and --b: must both be given"},
		{[]string{"--cause", "bitflip", "-o", "x"}, `--cause "bitflip": did you mean bit-flip?`},
		{[]string{"--a", "--steps 1", "--b", "--trace x", "--json"}, "--b: --trace: localize says what its runs write"},
		{[]string{"--a", "--preset pico --steps 1", "--b", "--preset pico --steps 1 --schedule 2", "-o", "no/such/folder/x"}, "-o no/such/folder/x: "},
		{[]string{"no", "such", "-o", "x"}, "trace no: "},
	} {
		t.Chdir(t.TempDir())
		code, out, stderr := firstbit(t, append([]string{"report"}, c.args...)...)
		require.Equal(t, exitBad, code, c.args)
		require.Empty(t, out)
		require.Contains(t, stderr, c.want)
		require.NoFileExists(t, "x")
	}
}

// The verdict in the page is what localize prints.
func TestReportOfAPair(t *testing.T) {
	flags := []string{"--a", "--preset pico --steps 2", "--b", "--preset pico --steps 2 --inject 'flip@layers.1.attn.wk step=2 elem=7 bit=3'", "--json"}
	code, out, stderr := firstbit(t, append([]string{"report"}, flags...)...)
	require.Equal(t, exitDifferent, code, stderr)
	var page struct{ Diff json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(out), &page))
	_, want, _ := firstbit(t, append([]string{"localize"}, flags...)...)
	require.JSONEq(t, want, string(page.Diff))

	path := filepath.Join(t.TempDir(), "x.html")
	code, _, stderr = firstbit(t, append(append([]string{"report"}, flags[:3]...), "--preset pico --steps 2", "-o", path)...)
	require.Equal(t, exitSame, code, stderr)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, int64(100_000), info.Size())
}
