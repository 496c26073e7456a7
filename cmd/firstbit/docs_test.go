package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/experiments"
	"firstbit/run"
	"firstbit/train"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the outputs and tables of README.md and docs/")

// readmeBytes bounds README.md; what is longer belongs in docs/.
const readmeBytes = 8 << 10

// Every command of a page that shows its output is run and compared; every table is made from what it describes.
// Commands without output are scripts/docs.sh's.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range append(pages, "../../README.md") {
		path, err := filepath.Abs(page)
		require.NoError(t, err)
		t.Run(filepath.Base(page), func(t *testing.T) { checkPage(t, path) })
	}
}

func checkPage(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	recipes, err := filepath.Abs("../../recipe")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Symlink(recipes, "recipe")) // so that pages name its test data as from the root
	got := consoles(t, string(text))
	got = section(t, got, "catalog", catalogTable)
	got = section(t, got, "reference", referenceTable)
	got = section(t, got, "presets", presetTable)
	got = section(t, got, "rules", rulesTable)
	got = section(t, got, "recipes", recipesTable)
	got = section(t, got, "predicates", predicatesTable)
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	name := filepath.Base(path)
	want, have := strings.Split(string(text), "\n"), strings.Split(got, "\n")
	for i := range min(len(want), len(have)) {
		require.Equal(t, want[i], have[i], "%s:%d is not what the program prints; after a change that means to: make golden", name, i+1)
	}
	require.Len(t, have, len(want))
	if name == "README.md" {
		require.LessOrEqual(t, len(text), readmeBytes)
	}
}

var console = regexp.MustCompile("(?s)```console\n(.*?)```")

const program = "$ go run ./cmd/firstbit "

// consoles puts after each command of each block what it prints now.
func consoles(t *testing.T, text string) string {
	return console.ReplaceAllStringFunc(text, func(block string) string {
		var b bytes.Buffer
		b.WriteString("```console\n")
		for _, line := range strings.Split(block, "\n") {
			command, ok := strings.CutPrefix(line, program)
			if !ok {
				continue
			}
			b.WriteString(line + "\n")
			command, file, redirected := strings.Cut(command, " > ")
			_, stdout, stderr := firstbit(t, words(command)...)
			if redirected {
				require.NoError(t, os.WriteFile(file, []byte(stdout), 0o644))
				stdout = ""
			}
			b.WriteString(stdout + stderr)
		}
		b.WriteString("```")
		return b.String()
	})
}

var word = regexp.MustCompile(`'[^']*'|\S+`)

// words splits a command as a shell does, single quotes and all.
func words(command string) []string {
	var w []string
	for _, s := range word.FindAllString(command, -1) {
		w = append(w, strings.Trim(s, "'"))
	}
	return w
}

// section makes the table of a name anew, where the page has it.
func section(t *testing.T, text, name string, table func(*testing.T) string) string {
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	head, rest, ok := strings.Cut(text, begin)
	if !ok {
		return text
	}
	_, tail, ok := strings.Cut(rest, end)
	require.True(t, ok, name)
	return head + begin + table(t) + end + tail
}

func catalogTable(*testing.T) string {
	var b strings.Builder
	b.WriteString("| cause | what differs | root the localiser names | cure | source |\n|---|---|---|---|---|\n")
	for _, c := range experiments.Causes() {
		fmt.Fprintf(&b, "| **%s** | %s | `%s` | %s | %s |\n", c.ID, c.Cause, c.Root, c.Cure, c.Source)
	}
	return b.String()
}

// referenceTable has the report's words above those of the causes that show the same.
func referenceTable(*testing.T) string {
	var b strings.Builder
	b.WriteString("| | symptom | cause | diagnosis | fix |\n|---|---|---|---|---|\n")
	quoted := func(words string) string {
		if words == "" {
			return ""
		}
		return "“" + words + "”"
	}
	for _, r := range experiments.References() {
		fmt.Fprintf(&b, "| report, *%s* | %s | %s | %s | %s |\n", r.Section, quoted(r.Symptom), quoted(r.Cause), quoted(r.Diagnose), quoted(r.Cure))
		for _, c := range experiments.Causes() {
			if c.Reference == r {
				fmt.Fprintf(&b, "| `firstbit reproduce %s` | %s | %s | %s | %s |\n", c.ID, c.Symptom, c.Cause, c.Diagnose, c.Cure)
			}
		}
	}
	return b.String()
}

// rulesTable has what deterministic mode refuses.
func rulesTable(*testing.T) string {
	var b strings.Builder
	b.WriteString("| rule | looks at | why | set |\n|---|---|---|---|\n")
	for _, r := range run.Rules() {
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", r.ID, r.Field, r.Why, r.Set)
	}
	return b.String()
}

func presetTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| preset | pattern | width | vocabulary | batch × tokens | parameters |\n|---|---|---|---|---|---|\n")
	for _, name := range train.PresetNames() {
		c, err := train.Preset(name)
		require.NoError(t, err)
		fmt.Fprintf(&b, "| %s | `%s` | %d | %d | %d × %d | %d |\n", name, c.Model.Pattern, c.Model.Width, c.Model.Vocab, c.Batch*c.Micro, c.Seq, c.Model.Params())
	}
	return b.String()
}

// The check must be able to fail.
func TestDocsCheckSeesAChange(t *testing.T) {
	block := "```console\n" + program + "tree seq -n 2\nnot what it prints\n```"
	require.NotEqual(t, block, consoles(t, block))
	require.NotEqual(t, "<!-- begin x -->\n1\n<!-- end x -->", section(t, "<!-- begin x -->\n1\n<!-- end x -->", "x", func(*testing.T) string { return "2\n" }))
	require.Equal(t, []string{"tree", "blocked(4)", "-n", "10"}, words("tree 'blocked(4)' -n 10"))
}
