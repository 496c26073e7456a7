package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var matrix = flag.Bool("matrix", false, "run tests in their exhaustive forms")

// The list can be read, and a table that was written is the one that is read.
func TestListAndTable(t *testing.T) {
	mutants, err := parse(list)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "mutants.md")
	rows, err := readTable(path)
	require.NoError(t, err)
	require.Empty(t, rows)
	rows[mutants[0].title] = result{caught, "kernel TestSums/of_none"}
	rows[mutants[1].title] = result{stale, "the file has the text 2 times"}
	rows[mutants[2].title] = result{outcome: survived}
	require.NoError(t, writeTable(path, mutants[:4], rows))
	rows[mutants[3].title] = result{outcome: untried}
	got, err := readTable(path)
	require.NoError(t, err)
	require.Equal(t, rows, got)
}

// What a mutation replaces stands in its file, once.
func TestMutationsApply(t *testing.T) {
	mutants, err := parse(list)
	require.NoError(t, err)
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(m.file)))
		require.NoError(t, err, m.title)
		if n := strings.Count(string(text), m.old); n != 1 {
			t.Errorf("%s: %s has %q %d times", m.title, m.file, m.old, n)
		}
	}
}

func TestParse(t *testing.T) {
	got, err := parse("# a comment\n\none thing\na/b.go\n-x\n-y\n+z\n\n# another\nnext\nc.go\n-1\n+2\n")
	require.NoError(t, err)
	require.Equal(t, []mutant{{"one thing", "a/b.go", "x\ny", "z"}, {"next", "c.go", "1", "2"}}, got)
	for text, want := range map[string]string{
		"a\nb.go\n-x":                          "must be a title of its own",
		"a\nb.go\n-x\n+x":                      "changes nothing",
		"a\nb.go\n+x\n-y":                      "must be a line of -, or of + after those",
		"a\nb.go\n-x\nand\n+y":                 "must be a line of -, or of + after those",
		"a\nb.go\n-x\n+y\n\na\nc.go\n-x\n+y\n": "must be a title of its own",
	} {
		_, err := parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

// Of a small module: what its own tests catch, what only a package catches that needs it, what nothing does, and what is no mutation.
func TestTry(t *testing.T) {
	if !*matrix {
		t.Skip("builds tests")
	}
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module made\n\ngo 1.26\n",
		"low/low.go":        "package low\n\nfunc Two() int { return 2 }\n\nfunc Four() int { return 4 }\n\nfunc Six() int { return 6 }\n",
		"low/low_test.go":   "package low\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif Two() != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
		"high/high.go":      "package high\n\nimport \"made/low\"\n\nfunc Eight() int { return 2 * low.Four() }\n",
		"high/high_test.go": "package high\n\nimport \"testing\"\n\nfunc TestEight(t *testing.T) {\n\tt.Run(\"sum\", func(t *testing.T) {\n\t\tif Eight() != 8 {\n\t\t\tpanic(8)\n\t\t}\n\t})\n}\n",
	} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	m, err := loadModule(root)
	require.NoError(t, err)
	require.Equal(t, []string{"made/low", "made/high"}, m.testing("made/low"))
	asked := tester{module: m, dir: t.TempDir(), limit: time.Minute}
	of := func(old, new string) result { return asked.try(mutant{"a title", "low/low.go", old, new}, result{}) }
	require.Equal(t, result{caught, "low TestTwo"}, of("return 2", "return 3"))
	require.Equal(t, result{caught, "high TestEight/sum"}, of("return 4", "return 5"))
	require.Equal(t, result{outcome: survived}, of("return 6", "return 7"))
	require.Equal(t, result{stale, "the file has the text 3 times"}, of("return", "panic"))
	require.Equal(t, result{stale, "there is no such file"}, asked.try(mutant{"a title", "low/none.go", "x", "y"}, result{}))
	broken := of("return 6", "return \"6\"")
	require.Equal(t, uncompiled, broken.outcome)
	require.Contains(t, broken.by, "cannot use \"6\"")
	asked.near = true
	require.Equal(t, result{outcome: survived}, of("return 4", "return 5"))
	require.Equal(t, result{caught, "high TestEight/sum"}, asked.try(mutant{"a title", "low/low.go", "return 4", "return 5"}, result{caught, "high TestEight/sum"}))
}
