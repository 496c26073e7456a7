package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFixtures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "packs")
	code, out, errs := firstbit(t, "fixtures", dir, "--cause", "bit-flip", "--json")
	require.Equal(t, exitSame, code, errs)
	require.Empty(t, errs)
	v := jsonOf(t, out)
	require.Equal(t, true, v["ok"])
	pack := v["packs"].([]any)[0].(map[string]any)
	require.Equal(t, "bit-flip", pack["cause"])
	require.Equal(t, "wq", pack["truth"].(map[string]any)["root"].(map[string]any)["name"])
	require.FileExists(t, filepath.Join(dir, "bit-flip", "truth.json"))
	code, out, _ = firstbit(t, "diff", filepath.Join(dir, "bit-flip", "a"), filepath.Join(dir, "bit-flip", "b"))
	require.Equal(t, exitDifferent, code)
	require.Contains(t, out, "confirmed by the dumped bytes")

	full, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{dir}, "fixtures " + dir + ": is not empty: name a new folder"},
		{[]string{}, "must be DIR"},
		{[]string{""}, "argument 1: empty: must be DIR"},
		{[]string{dir + "2", "--cause", "gremlins"}, "--cause: cause \"gremlins\": must be one of dprob-atomics"},
		{[]string{dir + "2", "--cause", "bit-flip", "--cause", "bit-flip"}, "named twice"},
		{[]string{filepath.Join(dir, "README.md", "x")}, "not a directory"},
	} {
		code, out, errs := firstbit(t, append([]string{"fixtures"}, c.args...)...)
		require.Equal(t, exitBad, code, c.args)
		require.Empty(t, out)
		require.Contains(t, errs, c.want)
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
	}
	require.NoDirExists(t, dir+"2")
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, after, len(full))
}
