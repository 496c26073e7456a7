package tidy

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// justified is the comment that a range over a map needs, on its line or the one above.
var justified = regexp.MustCompile(`(?i)sorted (below|here|after)|order reaches no`)

// unordered are functions that visit a map in no order.
var unordered = []string{"maps.All", "maps.Keys", "maps.Values", "(reflect.Value).MapKeys", "(reflect.Value).MapRange", "(*sync.Map).Range"}

// checkMapRanges finds code that visits a map in no order and does not say why that is
// harmless. What goes straight into a function that sorts it is.
func checkMapRanges(packages []*typed) (found []string) {
	for _, p := range packages {
		for _, f := range p.files {
			excused := p.commented(f, justified)
			sorted := p.sortedArguments(f)
			flag := func(n ast.Node, what string) {
				at := p.m.fset.Position(n.Pos())
				above, commented := excused[at.Line-1]
				if _, here := excused[at.Line]; !here && !(commented && above == at.Column) {
					found = append(found, p.find(n.Pos(), "%s in no order, without a comment saying why the order reaches nothing", what))
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.RangeStmt:
					if isMap(p.info.Types[n.X].Type) {
						flag(n, "ranges over "+types.ExprString(n.X))
					}
				case *ast.CallExpr:
					if f, ok := p.callee(n).(*types.Func); ok && slices.Contains(unordered, f.FullName()) && !sorted[n] {
						flag(n, "calls "+f.FullName())
					}
				}
				return true
			})
		}
	}
	return found
}

// isMap says whether a type is a map, or a type parameter that may be one.
func isMap(t types.Type) bool {
	if param, ok := t.(*types.TypeParam); ok {
		return types.Satisfies(types.NewMap(types.Typ[types.Int], types.Typ[types.Int]), param.Constraint().Underlying().(*types.Interface)) ||
			strings.Contains(param.Constraint().Underlying().String(), "map[")
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// commented are the lines of a file that have a matching comment, with its column: that of
// a comment on a line of its own is the column of the statement below.
func (p *typed) commented(f *ast.File, pattern *regexp.Regexp) map[int]int {
	lines := map[int]int{}
	for _, group := range f.Comments {
		for _, c := range group.List {
			if pattern.MatchString(c.Text) {
				at := p.m.fset.Position(c.Pos())
				lines[at.Line] = at.Column
			}
		}
	}
	return lines
}

// sortedArguments are the calls whose result is handed to a function that sorts it.
func (p *typed) sortedArguments(f *ast.File) map[ast.Expr]bool {
	calls := map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if n, ok := n.(*ast.CallExpr); ok && len(n.Args) > 0 {
			if f := p.callee(n); f != nil && f.Pkg() != nil && f.Pkg().Path() == "slices" && strings.HasPrefix(f.Name(), "Sorted") {
				calls[n.Args[0]] = true
			}
		}
		return true
	})
	return calls
}

func TestMapsAreNotRangedOverWhereOrderMatters(t *testing.T) {
	report(t, "maps visited in no order", forEachArchitecture(t, nil, checkMapRanges))
}

func TestMapRangesNegativeControl(t *testing.T) {
	mustFlag(t, `package kernel

import ("maps"; "reflect"; "slices"; "sync")

type named map[string]float32

func sums[M ~map[int]float32](m map[int]float32, n named, g M, s sync.Map, v reflect.Value) (sum float32) {
	for _, x := range m { // want
		sum += x
	}
	for k := range n { // want
		_ = k
	}
	for range g { // want
	}
	for k := range maps.Keys(m) { // want
		_ = k
	}
	_ = slices.Collect(maps.Values(n)) // want
	s.Range(func(a, b any) bool { return true }) // want
	_ = v.MapKeys() // want
	// The next line is not excused by this one: it only mentions order.
	for range m { // want
	}
	sum++ // sorted below, but that is about this line
	for range m { // want
	}
	return
}

func fine(m map[int]float32, x []float32) {
	for range m { // order reaches nothing: they are counted
	}
	var keys []int
	// Sorted below.
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	_ = slices.Sorted(maps.Keys(m))
	for range x {
	}
	for range 3 {
	}
}
`, checkMapRanges)
}

// clocks are packages from which no number may come.
var clocks = []string{"time", "math/rand", "math/rand/v2", "crypto/rand", "hash/maphash", randomness}

// randomness is the source of random numbers, which belongs to rng.
const randomness = "golang.org/x/exp/rand"

// exact are the functions of package math that give the same bits everywhere. Most others
// are assembly on some architectures.
var exact = strings.Fields("Abs Ceil Copysign Float32bits Float32frombits Float64bits Float64frombits Floor Frexp Inf IsInf " +
	"IsNaN Ldexp Max Min Mod Modf NaN Nextafter Nextafter32 Round RoundToEven Signbit Sqrt Trunc")

// checkArithmetic finds clocks, foreign random numbers and inexact functions of math. FMA is
// exact, and rounds a float32 product twice; lowp.FMA32 does not.
func checkArithmetic(packages []*typed) (found []string) {
	for _, p := range packages {
		for _, f := range p.files {
			for _, spec := range f.Imports {
				path := strings.Trim(spec.Path.Value, `"`)
				if slices.Contains(clocks, path) && !(path == randomness && p.dir == "rng") {
					found = append(found, p.find(spec.Pos(), "imports %s into arithmetic", path))
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				if f, ok := p.info.Uses[id].(*types.Func); ok && f.Pkg() != nil && inexact(f) {
					found = append(found, p.find(id.Pos(), "uses %s, which is not the same everywhere: use libm", f.FullName()))
				}
				return true
			})
		}
	}
	return found
}

func inexact(f *types.Func) bool {
	return f.Pkg().Path() == "math/cmplx" || f.Pkg().Path() == "math" && !slices.Contains(exact, f.Name())
}

func TestArithmeticHasNoClocksAndItsOwnFunctions(t *testing.T) {
	report(t, "clocks, random numbers and inexact functions in arithmetic", forEachArchitecture(t, arithmetic, checkArithmetic))
}

func TestArithmeticNegativeControl(t *testing.T) {
	mustFlag(t, `package kernel

import (
	"math"
	. "math"
	m "math"
	"math/rand" // want
	_ "math/rand/v2" // want
	"time" // want
	_ "golang.org/x/exp/rand" // want
)

var (
	_ = math.Exp(1) // want
	_ = m.Log(2) // want
	_ = Pow(2, 3) // want
	_ = math.FMA(1, 2, 3) // want
	f = math.Sin // want
	_ = math.Cos(1) + math.Sqrt(2) // want
	_ = math.Tanh(1) // want
	_ = math.Float32bits(1)
	_ = math.Pi * math.Abs(-2) + Ldexp(1, 2)
	_, _ = rand.Int, time.Now
)
`, checkArithmetic)
}

// owners are modules that one package alone may import: the source of random numbers, whose whole state only rng sets, and a
// tensor library whose arithmetic hides its order.
var owners = map[string]string{randomness: "rng", "gorgonia.org/": "dense"}

// checkOwners finds imports of an owned module elsewhere, tests included.
func checkOwners(m *module) (found []string) {
	for _, p := range m.packages {
		for _, f := range slices.Concat(p.files, p.tests) {
			for _, spec := range f.Imports {
				path := strings.Trim(spec.Path.Value, `"`)
				for module, owner := range owners { // sorted below
					if strings.HasPrefix(path, module) && p.dir != owner {
						found = append(found, m.at(spec.Pos())+": imports "+path+", which only "+owner+" may")
					}
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

func TestOwnedModulesAreImportedByTheirOwner(t *testing.T) {
	report(t, "imports past their owner", checkOwners(loadModule(t)))
}

func TestOwnersNegativeControl(t *testing.T) {
	source := "package p\nimport _ \"golang.org/x/exp/rand\"\nimport _ \"gorgonia.org/tensor\"\n"
	m := madeUp(t, map[string]string{"data": source, "rng": source, "dense": source})
	require.Equal(t, []string{
		"data/a.go:2: imports golang.org/x/exp/rand, which only rng may",
		"data/a.go:3: imports gorgonia.org/tensor, which only dense may",
		"dense/a.go:2: imports golang.org/x/exp/rand, which only rng may",
		"rng/a.go:3: imports gorgonia.org/tensor, which only dense may",
	}, checkOwners(m))
}
