package tidy

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// A cite names a page of docs/ and may go on with one of its headings; a link is Markdown's, to a file; a source is a file
// with Go in it; an alien cites a page by its section's number, as pages outside the repository are cited.
var (
	cite   = regexp.MustCompile(`docs/([a-z_0-9]+\.md)(?:, ([A-Z][^\n]*))?`)
	link   = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	code   = regexp.MustCompile("`[^`]*`") // no link is in it
	source = regexp.MustCompile("`((?:[a-z0-9_]+/)+[a-z0-9_]+\\.(?:go|s|sh))`")
	alien  = regexp.MustCompile(`\b[A-Z]{4,}(\.md)? §|\.\./shared`)
)

// headings are those of a page, by its path.
func headings(text string) (all []string) {
	for _, line := range strings.Split(text, "\n") {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			all = append(all, strings.TrimSpace(name))
		}
	}
	return all
}

// checkCitations finds what a file cites that is not there. Files are given by path, all of them.
func checkCitations(files map[string]string, name string) (found []string) {
	fenced := false
	for i, line := range strings.Split(files[name], "\n") {
		flag := func(format string, a ...any) {
			found = append(found, fmt.Sprintf("%s:%d: ", name, i+1)+fmt.Sprintf(format, a...))
		}
		for _, m := range cite.FindAllStringSubmatch(line, -1) {
			page, ok := files["docs/"+m[1]]
			switch {
			case !ok:
				flag("cites docs/%s, which is not there", m[1])
			case m[2] != "" && !strings.HasSuffix(name, ".md") && !slices.ContainsFunc(headings(page), func(h string) bool { return beginsWith(m[2], h) }):
				flag("docs/%s has no heading %q", m[1], m[2])
			}
		}
		if alien.MatchString(line) {
			flag("cites a page that is not in the repository")
		}
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if fenced || !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, m := range source.FindAllStringSubmatch(line, -1) {
			if _, ok := files[m[1]]; !ok {
				flag("names %s, which is not there", m[1])
			}
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
			to := path.Join(path.Dir(name), m[1])
			if _, ok := files[to]; !ok && !slices.ContainsFunc(sortedNames(files), func(f string) bool { return strings.HasPrefix(f, to+"/") }) {
				flag("links to %s, which is not there", to)
			}
		}
	}
	return found
}

// beginsWith tells whether a text begins with these words, whole.
func beginsWith(text, words string) bool {
	rest, ok := strings.CutPrefix(text, words)
	return ok && (rest == "" || !unicode.IsLetter(rune(rest[0])))
}

func sortedNames(files map[string]string) []string {
	names := make([]string, 0, len(files))
	for name := range files { // sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// texts are the files of the repository, those that are read by people with their text.
func texts(t *testing.T, root string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == root {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(at, root+string(filepath.Separator)))
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		files[name] = ""
		if slices.Contains([]string{".go", ".md", ".py", ".sh", ".js", ".s"}, path.Ext(name)) || d.Name() == "Makefile" || d.Name() == "run" {
			b, err := os.ReadFile(at)
			files[name] = string(b)
			return err
		}
		return nil
	}))
	return files
}

func TestCitationsExist(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	files := texts(t, root)
	var found []string
	for _, name := range sortedNames(files) {
		if name != "tidy/citations_test.go" { // its examples are wrong on purpose
			found = append(found, checkCitations(files, name)...)
		}
	}
	report(t, "citations of what is not there", found)
}

func TestCitationsNegativeControl(t *testing.T) {
	files := map[string]string{
		"docs/facts.md": "# Facts\n## Model\n## Low precision\n", "docs/plot.svg": "",
		"a.go":          "// docs/facts.md, Model and Kernels\n// docs/facts.md, Low precision; more\n// docs/facts.md, with words after it\n",
		"b.go":          "// docs/fact.md\n// docs/facts.md, Modelling of\n// FACTS §5\n// DESIGN.md §4\n// ../shared/x\n// docs/facts.md, Precision\n",
		"c.md":          "[a](docs/facts.md) [b](docs/) [c](docs/none.md) ![d](docs/plot.svg) [e](https://example.org/x.md) `train/loop.go` `train/none.go`\n```go\nx[i](y)\n```\n",
		"train/loop.go": "",
	}
	require.Empty(t, checkCitations(files, "a.go"))
	require.Equal(t, []string{
		"b.go:1: cites docs/fact.md, which is not there",
		`b.go:2: docs/facts.md has no heading "Modelling of"`,
		"b.go:3: cites a page that is not in the repository",
		"b.go:4: cites a page that is not in the repository",
		"b.go:5: cites a page that is not in the repository",
		`b.go:6: docs/facts.md has no heading "Precision"`,
	}, checkCitations(files, "b.go"))
	require.Equal(t, []string{"c.md:1: cites docs/none.md, which is not there", "c.md:1: names train/none.go, which is not there", "c.md:1: links to docs/none.md, which is not there"}, checkCitations(files, "c.md"))
}
