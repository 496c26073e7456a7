package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// arithmetic are the packages whose numbers must be the same on every machine.
var arithmetic = []string{"libm", "lowp", "reduce", "rng", "kernel", "nn", "quant", "ssm", "moe", "model", "optim"}

// architectures are those whose files are read. A file built for none of them is not seen.
var architectures = []string{"amd64", "arm64"}

// A typed package is the non-test source of one directory as built for one architecture.
type typed struct {
	m     *module
	dir   string
	files []*ast.File
	info  *types.Info
	pkg   *types.Package
}

// typeCheck checks the whole module for one architecture. The module's own packages are
// checked from source, so that one function is one object everywhere; all others are read
// from the export data that the go command keeps in its build cache.
func typeCheck(t *testing.T, m *module, arch string) []*typed {
	t.Helper()
	c := &checker{m: m, arch: arch, done: map[string]*typed{}}
	c.others = importer.ForCompiler(m.fset, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := exports(t)[path]
		if !ok {
			return nil, fmt.Errorf("no export data for %s", path)
		}
		return os.Open(file)
	})
	var all []*typed
	for _, p := range m.packages {
		if len(p.files) == 0 {
			continue
		}
		got, err := c.check(p)
		require.NoError(t, err)
		all = append(all, got)
	}
	return all
}

type checker struct {
	m      *module
	arch   string
	done   map[string]*typed
	others types.Importer
}

// Import makes checker a types.Importer.
func (c *checker) Import(path string) (*types.Package, error) {
	dir, own := strings.CutPrefix(path, c.m.path+"/")
	if !own {
		return c.others.Import(path)
	}
	p := c.m.named(dir)
	if p == nil {
		return nil, fmt.Errorf("no package %s", path)
	}
	got, err := c.check(p)
	if err != nil {
		return nil, err
	}
	return got.pkg, nil
}

func (c *checker) check(p *pkg) (*typed, error) {
	if got, ok := c.done[p.dir]; ok {
		return got, nil
	}
	got := &typed{m: c.m, dir: p.dir, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
	}}
	for _, f := range p.files {
		ok, err := c.built(f)
		if err != nil {
			return nil, err
		}
		if ok {
			got.files = append(got.files, f)
		}
	}
	var err error
	config := types.Config{Importer: c, Sizes: types.SizesFor("gc", c.arch)}
	got.pkg, err = config.Check(c.m.path+"/"+p.dir, c.m.fset, got.files, got.info)
	c.done[p.dir] = got
	return got, err
}

// built says whether a file is part of its package on the checker's architecture.
func (c *checker) built(f *ast.File) (bool, error) {
	if c.m.root == "" {
		return true, nil
	}
	context := build.Default
	context.GOARCH, context.CgoEnabled = c.arch, false
	path := filepath.Join(c.m.root, c.m.fset.Position(f.Package).Filename)
	return context.MatchFile(filepath.Dir(path), filepath.Base(path))
}

var exported = sync.OnceValues(func() (map[string]string, error) {
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./...")
	list.Dir = ".."
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", list.Args, err, stderr.String())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			files[path] = file
		}
	}
	return files, nil
})

// exports is the file of export data of every package that the module is built from.
func exports(t *testing.T) map[string]string {
	t.Helper()
	files, err := exported()
	require.NoError(t, err)
	return files
}

var loaded struct {
	sync.Mutex
	packages map[string][]*typed
}

// forEachArchitecture applies a check to the module as each architecture builds it, to the
// arithmetic packages alone or to all, and returns what it found, each finding once.
func forEachArchitecture(t *testing.T, dirs []string, check func([]*typed) []string) (found []string) {
	t.Helper()
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.packages == nil {
		loaded.packages = map[string][]*typed{}
		for _, arch := range architectures {
			loaded.packages[arch] = typeCheck(t, loadModule(t), arch)
		}
	}
	for _, arch := range architectures {
		found = append(found, check(only(t, loaded.packages[arch], dirs))...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// only keeps the packages in dirs, all of which must exist; nil keeps all.
func only(t *testing.T, all []*typed, dirs []string) (kept []*typed) {
	t.Helper()
	if dirs == nil {
		return all
	}
	for _, dir := range dirs {
		i := slices.IndexFunc(all, func(p *typed) bool { return p.dir == dir })
		require.GreaterOrEqual(t, i, 0, "%s/ is held to the rules of arithmetic but does not exist", dir)
		kept = append(kept, all[i])
	}
	return kept
}

// mustFlag runs a check on a made-up package "kernel". Exactly the lines that end in
// "// want" must be found.
func mustFlag(t *testing.T, source string, check func([]*typed) []string) {
	t.Helper()
	m := madeUp(t, map[string]string{"kernel": source})
	require.Equal(t, wanted(source), linesOf(t, check(typeCheck(t, m, "amd64"))))
}

// wanted are the numbers of the lines that end in "// want".
func wanted(source string) (lines []int) {
	for i, line := range strings.Split(source, "\n") {
		if strings.HasSuffix(line, "// want") {
			lines = append(lines, i+1)
		}
	}
	return lines
}

// linesOf are the line numbers of findings in one file, in order, each once.
func linesOf(t *testing.T, found []string) (lines []int) {
	t.Helper()
	for _, f := range found {
		parts := strings.SplitN(f, ":", 3)
		require.Len(t, parts, 3, "%q is not file:line: finding", f)
		line, err := strconv.Atoi(parts[1])
		require.NoError(t, err)
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// find is a finding at a position.
func (p *typed) find(pos token.Pos, format string, args ...any) string {
	return p.m.at(pos) + ": " + fmt.Sprintf(format, args...)
}

// object is what a name defines or uses.
func (p *typed) object(id *ast.Ident) types.Object {
	if o := p.info.Defs[id]; o != nil {
		return o
	}
	return p.info.Uses[id]
}

// callee is the function that a call names, as it was declared, or nil.
func (p *typed) callee(call *ast.CallExpr) types.Object {
	f := ast.Unparen(call.Fun)
	if i, ok := f.(*ast.IndexExpr); ok {
		f = i.X
	}
	switch f := f.(type) {
	case *ast.Ident:
		return origin(p.info.Uses[f])
	case *ast.SelectorExpr:
		return origin(p.info.Uses[f.Sel])
	}
	return nil
}

// origin is the declaration of which an object is an instance.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return o
}

// holds says whether an expression that is not a constant may have a type of some kind. A
// type parameter has every kind that its constraint admits.
func holds(p *typed, x ast.Expr, kind types.BasicInfo) bool {
	tv := p.info.Types[x]
	if tv.Type == nil || tv.Value != nil {
		return false
	}
	if param, ok := tv.Type.(*types.TypeParam); ok {
		constraint := param.Constraint().Underlying().(*types.Interface)
		return slices.ContainsFunc(types.Typ[types.Float32:types.UntypedBool], func(b *types.Basic) bool {
			return b.Info()&kind != 0 && types.Satisfies(b, constraint)
		})
	}
	b, ok := tv.Type.Underlying().(*types.Basic)
	return ok && b.Info()&kind != 0
}
