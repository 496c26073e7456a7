package tidy

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"testing"
)

// What follows from a NaN, or from a number that an integer cannot hold, is left to the processor in two places of Go: a NaN's bits, and
// conversions of floats to integers.

// numbers are the packages that compute on the bits of floats. All others compare, hash, print or save them.
var numbers = []string{"libm", "lowp", "reduce", "rng", "kernel", "quant", "optim", "docs/onefile"}

// checkBits finds bits of floats in which a NaN keeps its sign and its payload.
func checkBits(packages []*typed) (found []string) {
	for _, p := range packages {
		if slices.Contains(numbers, p.dir) {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				if f, ok := p.info.Uses[id].(*types.Func); ok && slices.Contains([]string{"math.Float32bits", "math.Float64bits"}, f.FullName()) {
					found = append(found, p.find(id.Pos(), "uses %s, in which NaNs differ between processors: use lowp's Encode or Bits", f.FullName()))
				}
				return true
			})
		}
	}
	return found
}

// fits is the comment that a conversion of a float to an integer needs, on its line or the one above.
var fits = regexp.MustCompile(`(?i)^// fits: `)

// checkConversions finds conversions of floats to integers that do not say why the integer can hold the float. A Call's scalars were integers.
func checkConversions(packages []*typed) (found []string) {
	for _, p := range packages {
		for _, f := range p.files {
			excused := p.commented(f, fits)
			ast.Inspect(f, func(n ast.Node) bool {
				c, ok := n.(*ast.CallExpr)
				if !ok || len(c.Args) != 1 || !p.info.Types[c.Fun].IsType() || p.info.Types[c].Value != nil {
					return true
				}
				_, here := excused[p.m.fset.Position(c.Pos()).Line]
				_, above := excused[p.m.fset.Position(c.Pos()).Line-1]
				if has(p.info.Types[c.Fun].Type, types.IsInteger) && has(p.info.Types[c.Args[0]].Type, types.IsFloat) && !here && !above && !p.scalar(c.Args[0]) {
					found = append(found, p.find(c.Pos(), "converts %s, without a comment saying why it fits", types.ExprString(c.Args[0])))
				}
				return true
			})
		}
	}
	return found
}

// has tells whether a type is basic and of a kind, or a type parameter that may be.
func has(t types.Type, kind types.BasicInfo) bool {
	if param, ok := t.(*types.TypeParam); ok {
		union, ok := param.Constraint().Underlying().(*types.Interface)
		if ok && union.NumEmbeddeds() > 0 {
			if u, ok := union.EmbeddedType(0).(*types.Union); ok {
				return has(u.Term(0).Type(), kind)
			}
			return has(union.EmbeddedType(0), kind)
		}
	}
	if of, ok := t.Underlying().(*types.Interface); ok && of.NumEmbeddeds() > 0 {
		if u, ok := of.EmbeddedType(0).(*types.Union); ok {
			return has(u.Term(0).Type(), kind)
		}
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&kind != 0
}

// scalar tells whether x is what a Call was given as a number.
func (p *typed) scalar(x ast.Expr) bool {
	c, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := p.callee(c).(*types.Func)
	return ok && f.Name() == "Scalar"
}

func TestBitsOfFloatsHaveOneNaN(t *testing.T) {
	report(t, "bits of floats", forEachArchitecture(t, nil, checkBits))
}

func TestBitsNegativeControl(t *testing.T) {
	numbers = slices.DeleteFunc(slices.Clone(numbers), func(dir string) bool { return dir == "kernel" })
	defer func() { numbers = append(numbers, "kernel") }()
	mustFlag(t, `package kernel

import "math"

var (
	_ = math.Float32bits(1) // want
	f = math.Float64bits // want
	_ = math.Float32frombits(1)
)
`, checkBits)
}

func TestFloatsFitTheIntegersTheyBecome(t *testing.T) {
	report(t, "conversions of floats to integers", forEachArchitecture(t, nil, checkConversions))
}

func TestConversionsNegativeControl(t *testing.T) {
	mustFlag(t, `package kernel

type width int8
type call struct{}

func (call) Scalar(string) float64 { return 1 }

func convert[T float32 | float64](x T, y float64, i int, c call) {
	_ = int(x) // want
	_ = uint8(y) // want
	_ = width(y + 1) // want
	_ = int32(float64(i)) // want
	_ = int(2.0)
	_ = int64(i)
	_ = float32(y)
	_ = int(c.Scalar("n"))
	_ = int(x) // fits: it is below 3
	// fits: so does this
	_ = int(y)
	_ = int(y) // it fits: but not here // want
}
`, checkConversions)
}
