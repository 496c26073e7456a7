package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestWrap(t *testing.T) {
	word := strings.Repeat("x", 30)
	for line, want := range map[string]string{
		"":                                      "",
		"  short":                               "  short",
		"  a " + word + " " + word + " " + word: "  a " + word + " " + word + "\n    " + word,
		"head  \t" + word + " " + word + "   " + word:     "head  " + word + " " + word + "\n      " + word,
		"   " + strings.Repeat("y", 90):                   "   " + strings.Repeat("y", 90), // a name is not broken
		strings.Repeat("é ", 40) + markOn + "1" + markOff: strings.TrimSpace(strings.Repeat("é ", 40)) + "\n  " + markOn + "1" + markOff,
	} {
		require.Equal(t, want, wrap(line))
	}
}

// Digits that differ are in colour on a terminal that has some; nothing else that stands between marks is.
func TestMarkedDigits(t *testing.T) {
	const on, off = "\x1b[1;31m", "\x1b[0m"
	text := mark("1.234567", "1.239997") + " " + mark("7", "7") + " " + mark("12", "1")
	colour, plain := &output{colour: true}, &output{}
	require.Equal(t, "1.23"+on+"456"+off+"7 7 12", string(colour.inked([]byte(text))))
	require.Equal(t, "1.234567 7 12", string(plain.inked([]byte(text))))
	require.Equal(t, `\u000e;\u000f`, string(colour.inked([]byte(markOn+";"+markOff))), "a name that is no digits")
	require.Equal(t, `\u000eff`, string(colour.inked([]byte(markOn+"ff"))))

	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer file.Close()
	require.False(t, coloured(file), "a file is no terminal")
}

// What people read at a terminal fits it.
func TestTextFits(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	train := []string{"train", "--preset", "pico", "--steps", "2"}
	for _, args := range [][]string{append(train, "--trace", a), append(train, "--trace", b, "--inject", "flip@layers.1.attn.wk step=2 elem=7 bit=3")} {
		code, _, stderr := firstbit(t, args...)
		require.Zero(t, code, stderr)
	}
	for _, args := range [][]string{
		train, append(train, "--precision", "fp64"), {"reproduce", "bit-flip", "--steps", "5"}, {"diff", a, b}, {"spread", a, b},
		{"route", "--steps", "5"}, {"tree", "arrival", "-n", "200"}, {"tree", "seq", "-n", "19"}, {"reveal", "matmul", "-n", "64"},
	} {
		_, out, stderr := firstbit(t, args...)
		require.Empty(t, stderr, args)
		for line := range strings.SplitSeq(out, "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), terminalWidth, "%v: %s", args, line)
		}
		if args[0] == "tree" || args[0] == "reveal" {
			require.LessOrEqual(t, strings.Count(out, "\n"), terminalLines+10, args) // the order itself may take some
		}
	}
	code, out, _ := firstbit(t, append(train, "--wide")...)
	require.Zero(t, code)
	require.Contains(t, out, "z_loss")
	_, out, _ = firstbit(t, "tree", "seq", "-n", "100", "--full")
	require.Equal(t, 102, strings.Count(out, "\n"))
}
