package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A module is every package below a go.mod, parsed. Packages and files are in order of
// their names, so findings are as well.
type module struct {
	root, path string
	fset       *token.FileSet
	packages   []*pkg
}

// A pkg is one directory of Go files, whatever they are built for.
type pkg struct {
	dir          string // relative to the module's root
	files, tests []*ast.File
}

// at is a position as file:line, relative to the module's root.
func (m *module) at(pos token.Pos) string {
	p := m.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// named is the package in a directory, or nil.
func (m *module) named(dir string) *pkg {
	i := slices.IndexFunc(m.packages, func(p *pkg) bool { return p.dir == dir })
	if i < 0 {
		return nil
	}
	return m.packages[i]
}

// add parses one file into its package.
func (m *module) add(name string, text []byte) error {
	f, err := parser.ParseFile(m.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := filepath.ToSlash(filepath.Dir(name))
	p := m.named(dir)
	if p == nil {
		p = &pkg{dir: dir}
		m.packages = append(m.packages, p)
	}
	if strings.HasSuffix(name, "_test.go") {
		p.tests = append(p.tests, f)
	} else {
		p.files = append(p.files, f)
	}
	return nil
}

// loadModule parses the module that the tests run in. Directories that the go command
// leaves out are left out: hidden ones, testdata, and those with a go.mod of their own.
func loadModule(t *testing.T) *module {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	m := &module{root: root, path: modulePath(t, root), fset: token.NewFileSet()}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, path)
		}
		if hidden(d.Name()) || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return m.add(filepath.ToSlash(name), text)
	})
	require.NoError(t, err)
	require.NotEmpty(t, m.packages)
	return m
}

func hidden(name string) bool { return name[0] == '.' || name[0] == '_' }

// enter says whether a directory's packages are the module's.
func enter(root, path string) error {
	if path == root {
		return nil
	}
	name := filepath.Base(path)
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	if hidden(name) || name == "testdata" || name == "vendor" || err == nil {
		return fs.SkipDir
	}
	return nil
}

func modulePath(t *testing.T, root string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(path)
		}
	}
	t.Fatal("go.mod has no module line")
	return ""
}

// madeUp is a module "example" of one file a package, for negative controls.
func madeUp(t *testing.T, sources map[string]string) *module {
	t.Helper()
	m := &module{path: "example", fset: token.NewFileSet()}
	for dir, text := range sources { // sorted below
		require.NoError(t, m.add(dir+"/a.go", []byte(text)))
	}
	slices.SortFunc(m.packages, func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	return m
}

// report fails the test with one finding a line.
func report(t *testing.T, what string, found []string) {
	t.Helper()
	if len(found) > 0 {
		t.Errorf("%d %s:\n\t%s", len(found), what, strings.Join(found, "\n\t"))
	}
}
