package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n":                          "plain\n",
		"─┐ é 数 🙂\t\u00a0":                 "─┐ é 数 🙂\t\u00a0",
		"\x1b[31mred\x1b[0m\a\r":           `\u001b[31mred\u001b[0m\u0007\u000d`,
		"\u009b31m \x7f":                   `\u009b31m \u007f`,
		"\x9b31m":                          `\ufffd31m`, // a byte that old terminals obey
		"a\u202eb\u200bc\u2028d\U000e0041": `a\u202eb\u200bc\u2028d\udb40\udc41`,
		"\ufffd":                           "\ufffd",
	} {
		require.Equal(t, want, string(visible([]byte(text))))
	}
	require.Equal(t, `a b c\u001b`, oneLine("a\nb\tc\x1b"))
	for _, name := range []string{"\x1b]0;title\a", "\u009b\u202e\U000e0041\x7f"} {
		object, err := json.Marshal(name)
		require.NoError(t, err)
		var back string
		require.NoError(t, json.Unmarshal(visible(object), &back))
		require.Equal(t, name, back)
	}
}

// Escape sequences in names of files and flags reach neither stream.
func TestEscapesReachNoTerminal(t *testing.T) {
	const esc = "\x1b]0;title\a"
	dir := filepath.Join(t.TempDir(), "x"+esc)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "ck", "stepx"), 0o777))
	config := filepath.Join(dir, "c.json")
	require.NoError(t, os.WriteFile(config, []byte(`{"model":{"\u001b[2J":1}}`), 0o666))
	for _, args := range [][]string{
		{"train", "--config", config}, {"train", "--config", dir + "/none"}, {"train", "--set", "model." + esc + "=1"}, {"train", "--preset", esc},
		{"train", "--inject", esc}, {"train", "--resume", dir + "/ck"}, {"checkpoint", "show", dir + "/ck"}, {"diff", dir, dir}, {"reproduce", esc},
		{esc}, {"train", "--" + esc}, {"tree", esc}, {"train", "--data", dir + "/none"}, {"train", "--weights", dir},
	} {
		code, out, err := firstbit(t, args...)
		require.Equal(t, exitBad, code, args)
		require.NotContains(t, out+err, "\x1b", args)
		require.NotContains(t, out+err, "\a", args)
	}
	saved := filepath.Join(dir, "saved")
	code, _, stderr := firstbit(t, "train", "--preset", "pico", "--steps", "1", "--save", saved)
	require.Equal(t, exitSame, code, stderr)
	code, out, _ := firstbit(t, "checkpoint", "show", saved)
	require.Equal(t, exitSame, code)
	require.Contains(t, out, `x\u001b]0;title\u0007`)
	require.NotContains(t, out, "\x1b")
}
