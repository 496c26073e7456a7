package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// into runs the program with its standard output in a file, and says what it wrote to stderr.
func into(t *testing.T, out *os.File, args ...string) (code int, stderr string) {
	t.Helper()
	errs, err := os.Create(filepath.Join(t.TempDir(), "err"))
	require.NoError(t, err)
	code = perform(args, out, errs)
	require.NoError(t, errs.Close())
	text, err := os.ReadFile(errs.Name())
	require.NoError(t, err)
	return code, string(text)
}

// Whatever prints, in whatever form: what cannot be written is exit 2 and one line.
func TestFullDiskUnderStandardOutput(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full")
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	pico := []string{"train", "--preset", "pico", "--steps", "1"}
	for _, name := range []string{"a", "b"} {
		code, _, stderr := firstbit(t, append(pico, "--trace", path(name), "--save", path("ck"+name))...)
		require.Zero(t, code, stderr)
	}
	commands := [][]string{
		{}, {"--help"}, {"--version"}, {"version"}, {"version", "--json"}, {"help", "train"}, {"train", "--help"}, {"completion", "bash"}, {"__complete", "tr"},
		{"list"}, {"list", "--json"}, {"list", "--faults"},
		{"tree", "seq"}, {"tree", "seq", "--json"}, {"tree", "seq", "--svg"}, {"tree", "seq", "--dot"},
		{"reveal", "matmul", "-n", "2"}, {"reveal", "matmul", "-n", "2", "--json"},
		pico, append(pico, "--json"), {"reproduce", "step-counter"},
		{"diff", path("a"), path("b")}, {"diff", path("a"), path("b"), "--json"}, {"diff", path("a")},
		{"fixtures", path("packs"), "--cause", "data-offset"},
		{"verify", "repeat", "--preset", "pico", "--layout", "dp=1", "--steps", "1"},
		{"verify", "repeat", "--preset", "pico", "--layout", "dp=1", "--steps", "1", "--json"},
		{"checkpoint", "show", path("cka")}, {"checkpoint", "show", path("cka"), "--json"},
	}
	for _, args := range commands {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		code, stderr := into(t, full, args...)
		require.Equal(t, exitBad, code, args)
		stderr = strings.TrimPrefix(stderr, "Completion ended with directive: ShellCompDirectiveNoFileComp\n") // which is for people
		require.Equal(t, "firstbit: standard output: no space left on device\n", stderr, args)
	}
}

// A reader that has seen enough ends the run, quietly, with what a shell calls SIGPIPE.
func TestNobodyReads(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, read.Close())
	code, stderr := into(t, write, "train", "--preset", "pico", "--steps", "1000000000")
	require.Equal(t, exitUnread, code)
	require.Empty(t, stderr)
}

func TestOneLine(t *testing.T) {
	require.Equal(t, `a b \u001b[2J\u000d\u202e é …`, oneLine("a\nb \x1b[2J\r\u202e é …"))
}

// The first line is there before what it announces has run, and is not held back where nobody sits at a terminal.
func TestFirstLineComesAtOnce(t *testing.T) {
	for first, args := range map[string][]string{
		"clip-norm: ":     {"reproduce", "clip-norm"},
		" step  ":         {"train", "--preset", "pico", "--steps", "1000000000"},
		"verify repeat: ": {"verify", "repeat", "--preset", "pico", "--steps", "20"},
	} {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		ended := make(chan int, 1)
		go func() {
			code, _ := into(t, write, args...)
			ended <- code
		}()
		line, err := bufio.NewReader(read).ReadString('\n')
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(line, first), line)
		require.Empty(t, ended, "the command goes on")
		require.NoError(t, read.Close())
		require.Equal(t, exitUnread, <-ended)
	}
}
