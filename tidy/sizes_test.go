package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file or function longer than these says why in oversized.
const (
	fileLines     = 300
	functionLines = 70
)

// oversized are the exceptions: a file, or a function as dir.Name or dir.Type.Name, and the
// reason for its length.
var oversized = map[string]string{}

// checkSizes finds files and functions that are too long, and exceptions that need not be.
func checkSizes(m *module, oversized map[string]string) (found []string) {
	excused := map[string]bool{}
	measure := func(at, name string, lines, limit int) {
		if lines <= limit {
			return
		}
		if excused[name] = oversized[name] != ""; !excused[name] {
			found = append(found, fmt.Sprintf("%s: %s has %d lines, more than %d", at, name, lines, limit))
		}
	}
	for _, p := range m.packages {
		for _, f := range p.files {
			last := m.fset.File(f.Package).LineCount()
			if end := m.fset.File(f.Package); end.Size() > 0 && end.Offset(end.LineStart(last)) == end.Size() {
				last-- // the file ends in a newline
			}
			measure(m.at(f.FileStart), m.fset.Position(f.Package).Filename, last, fileLines)
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok {
					first, last := m.fset.Position(d.Type.Pos()).Line, m.fset.Position(d.End()).Line
					measure(m.at(d.Pos()), p.dir+"."+functionName(d), last-first+1, functionLines)
				}
			}
		}
	}
	for name := range oversized { // sorted below
		if !excused[name] {
			found = append(found, name+": an exception for a length that is not exceeded, or without a reason")
		}
	}
	slices.Sort(found)
	return found
}

// functionName is Name, or Type.Name for a method.
func functionName(d *ast.FuncDecl) string {
	if r := receiver(d); r != "" {
		return r + "." + d.Name.Name
	}
	return d.Name.Name
}

// receiver is the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	report(t, "files and functions that are too long", checkSizes(loadModule(t), oversized))
}

func TestSizesNegativeControl(t *testing.T) {
	function := func(name string, lines int) string {
		return "func " + name + "() {" + strings.Repeat("\n", lines-1) + "}\n"
	}
	m := madeUp(t, map[string]string{
		"fits": "package fits\n" + strings.Repeat("\n", fileLines-1),
		"long": "package long\n" + strings.Repeat("\n", fileLines),
		"functions": "package functions\n" + function("Fits", functionLines) + function("Long", functionLines+1) +
			function("(t *T[A]) Long", functionLines+1) + function("Excused", functionLines+1),
	})
	require.Equal(t, []string{
		"functions.Unused: an exception for a length that is not exceeded, or without a reason",
		"functions/a.go:143: functions.T.Long has 71 lines, more than 70",
		"functions/a.go:72: functions.Long has 71 lines, more than 70",
		"long/a.go:1: long/a.go has 301 lines, more than 300",
	}, checkSizes(m, map[string]string{"functions.Excused": "a table", "functions.Unused": "was long once"}))
}

// checkDocs finds packages without a package comment and exported names without a doc
// comment: functions, methods of exported types, types, constants and variables.
func checkDocs(m *module) (found []string) {
	for _, p := range m.packages {
		if len(p.files) > 0 && !slices.ContainsFunc(p.files, func(f *ast.File) bool { return f.Doc != nil }) {
			found = append(found, p.dir+"/: no package comment")
		}
		for _, f := range p.files {
			for _, d := range f.Decls {
				for _, name := range undocumented(d) {
					found = append(found, fmt.Sprintf("%s: %s has no doc comment", m.at(name.Pos()), name.Name))
				}
			}
		}
	}
	return found
}

func undocumented(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if r := receiver(d); d.Doc == nil && d.Name.IsExported() && (r == "" || ast.IsExported(r)) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		// The comment on a group speaks for all its constants or variables, but for no type.
		spoken := d.Doc != nil && !(d.Tok == token.TYPE && d.Lparen.IsValid())
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && !spoken {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				if s.Doc == nil && s.Comment == nil && !spoken {
					names = append(names, slices.DeleteFunc(slices.Clone(s.Names), func(n *ast.Ident) bool { return !n.IsExported() })...)
				}
			}
		}
	}
	return names
}

func TestExportedNamesHaveDocComments(t *testing.T) {
	report(t, "exported names without a doc comment", checkDocs(loadModule(t)))
}

func TestDocsNegativeControl(t *testing.T) {
	source := `package p

func F() {} // want

// G is documented.
func G() {}

func (t T) M() {} // want

func (t *u) M() {}

type T struct{} // want

type u struct{}

// Doc of a group of types says nothing of each.
type (
	A int // want
	// B is documented.
	B int
)

const C = 1 // want

// Doc of a group of constants speaks for all.
const (
	D = iota
	E
)

var (
	x, Y = 1, 2 // want
	Z = 3 // want
)
`
	// "// want" would be a doc comment of its own kind: it is looked up and then removed.
	m := madeUp(t, map[string]string{"p": strings.ReplaceAll(source, "// want", "")})
	found := checkDocs(m)
	require.Equal(t, "p/: no package comment", found[0])
	require.Equal(t, wanted(source), linesOf(t, found[1:]))
	require.Empty(t, checkDocs(madeUp(t, map[string]string{"p": "// Package p is documented.\npackage p\n"})))
}
