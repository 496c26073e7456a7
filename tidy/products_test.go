package tidy

import "testing"

func TestProductsAreConvertedBeforeTheyMeetASum(t *testing.T) {
	report(t, "products that a compiler may fuse", forEachArchitecture(t, arithmetic, checkProducts))
}

func TestProductsNegativeControl(t *testing.T) {
	mustFlag(t, `package kernel

type number interface{ ~float32 | ~float64 }
type named float32

func direct(x, y, z float32, s []float64, n named) {
	_ = x*y + z           // want
	_ = z - x*y           // want
	_ = z + (-(x * y))    // want
	_ = (x * y) - z       // want
	s[0] += s[1] * s[2]   // want
	s[0] -= (s[1]) * 2    // want
	_ = n + n*n           // want
	_ = x + y*y*y         // want
	_ = 1 + complex(x, y)*complex(y, x) // want
}

func generic[T number](s, x, y T) T {
	s += T(x * y)
	return s + x*y // want
}

func through(x, y, z float32) float32 {
	t := x * y
	t = t + z // want
	var u, v = x, -x * y
	u -= v // want
	w := x
	w *= y
	w += z // want
	w++ // want
	return u
}

func square[T number](x T) T              { return x * x }
func two(x, y float32) (float32, float32) { return x, x * y }
func named2(x, y float32) (r float32)     { r = x * y; return }

func calls(x, y, z float32) {
	_ = z + square(x) // want
	_ = z + square[float32](x) // want
	_ = z + named2(x, y) // want
	a, b := two(x, y)
	_ = a + z
	_ = b + z // want
	_ = add(x*y, z) // want
	_ = add(z, x*y) // want
	_ = z + same(x*y) // want
	_ = z + pass(x*y) // want
	_ = add2(x, y)
}

func add(a, b float32) float32  { return a + b }
func add2(a, b float32) float32 { return add(same(a), b*b) } // want
func same(a float32) float32    { return a }
func pass(a float32) (b float32) {
	c := a
	b = same(c)
	return
}

func fine(x, y, z float32, i, j int) {
	const a, b = 2.0, 3.0
	_ = float32(x*y) + z
	_ = z - float32(x*y)
	_ = x * (y + z)
	_ = x*y/z + float32(i*j+1)
	_ = x / y + z
	_ = z + a*b
	z += float32(x * y)
	_ = add(float32(x*y), z)
	_ = z + same(x) + pass(y) + add(x, y)
	_ = same(x * y)
	s := "a"
	s += "b"
}
`, checkProducts)
}
