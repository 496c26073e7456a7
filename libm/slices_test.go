package libm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The slice forms, each with the function of one element that it is held to.
func forms[T Float]() []form[T] {
	return []form[T]{
		{"exp", ExpSlice[T], ExpOf[T]},
		{"sigmoid", SigmoidSlice[T], Sigmoid[T]},
		{"silu", SiLUSlice[T], SiLU[T]},
	}
}

type form[T Float] struct {
	name  string
	slice func(dst, src []T)
	one   func(T) T
}

// onBothPaths runs a check with vector registers, where there are any, and without.
func onBothPaths(t *testing.T, check func(t *testing.T)) {
	defer func(v bool) { vectorised = v }(vectorised)
	if vectorised {
		t.Run("lanes", check)
	}
	vectorised = false
	t.Run("plain", check)
}

func bitsOf[T Float](x T) uint64 {
	if x, ok := any(x).(float32); ok {
		return uint64(math.Float32bits(x))
	}
	return math.Float64bits(float64(x))
}

// differs is the first element in which a slice form is not the function of one, or −1.
func differs[T Float](got, x []T, one func(T) T) int {
	for i, v := range x {
		if bitsOf(got[i]) != bitsOf(one(v)) {
			return i
		}
	}
	return -1
}

func requireOnes[T Float](t *testing.T, f form[T], got, x []T) {
	t.Helper()
	if i := differs(got, x, f.one); i >= 0 {
		require.Fail(t, "not the function of one element", "%s(%x), element %d: %x, want %x", f.name, x[i], i, got[i], f.one(x[i]))
	}
}

// dense32 is every 1024th float32, the low bits drawn: all exponents, both signs, infinities, NaN.
func dense32(r *rand.Rand) []float32 {
	x := make([]float32, 1<<22)
	for i := range x {
		x[i] = math.Float32frombits(uint32(i)<<10 | r.Uint32()>>22)
	}
	return x
}

// dense64 has all 53 bits: where eˣ is a number, and of every binade.
func dense64(r *rand.Rand) []float64 {
	x := make([]float64, 1<<20)
	all, every := within(-750, 715), binades(-1074, 1023, true)
	for i := range x {
		switch i % 4 {
		case 0:
			x[i] = all(r)
		case 1:
			x[i] = float64(40 * (r.Float64() - 0.5))
		case 2:
			x[i] = binades(-60, 10, true)(r)
		default:
			x[i] = every(r)
		}
	}
	return x
}

// edges are the arguments at which Exp, its lanes or a format take another way, with their
// neighbours of both signs, and all at which the reduction takes another multiple of ln 2.
func edges[T Float](next func(x, toward T) T) (x []T) {
	at := []float64{0, tiny, 708, 708.3964185322641, 709, 7.09782712893383973096e+02, 7.45133219101941108420e+02, 87.33655, 88.72284, 103.97208,
		103.27893, 1, 0.5, math.Ln2, 0x1p-126, 0x1p-149, 0x1p-1022, 5e-324, math.MaxFloat32, math.MaxFloat64, inf, nan}
	for k := range 1080 {
		at = append(at, float64((float64(k)+0.5)*math.Ln2), float64(float64(k)*math.Ln2))
	}
	for _, v := range at {
		for _, e := range []T{T(v), -T(v)} {
			below, above := e, e
			x = append(x, e)
			for range 3 {
				below, above = next(below, T(-inf)), next(above, T(inf))
				x = append(x, below, above)
			}
		}
	}
	return x
}

func TestSlicesAreTheFunctionsOfOne(t *testing.T) {
	onBothPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		checkSlices(t, r, dense32(r), edges(math.Nextafter32))
		checkSlices(t, r, dense64(r), edges(math.Nextafter))
	})
}

// checkSlices holds slice forms to samples and edges, in their order and shuffled, so that plain
// elements and others share registers.
func checkSlices[T Float](t *testing.T, r *rand.Rand, dense, edge []T) {
	y := make([]T, len(dense)+len(edge))
	for _, f := range forms[T]() {
		x := append(append([]T(nil), dense...), edge...)
		f.slice(y, x)
		requireOnes(t, f, y, x)
		x = edge
		for range 20 {
			r.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
			f.slice(y[:len(x)], x)
			requireOnes(t, f, y, x)
		}
	}
}

// Every length about those of registers, at any place, onto itself or apart, nothing written beside it,
// with an element that is not plain in any lane or in none.
func TestSlicesOfAnyLengthAndPlace(t *testing.T) {
	onBothPaths(t, func(t *testing.T) {
		checkPlaces[float32](t)
		checkPlaces[float64](t)
	})
}

func checkPlaces[T Float](t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	odd := []T{T(nan), T(inf), T(-inf), 800, -800, T(zeroNeg), 0}
	for _, f := range forms[T]() {
		for n := range 36 {
			for at := range 4 {
				for special := -1; special < n; special++ {
					x := make([]T, n+8)
					for i := range x {
						x[i] = T(float64(30 * (r.Float64() - 0.5)))
					}
					if special >= 0 {
						x[at+special] = odd[r.IntN(len(odd))]
					}
					apart, self := append([]T(nil), x...), append([]T(nil), x...)
					f.slice(apart[at:at+n:at+n], x[at:at+n:at+n])
					f.slice(self[at:at+n], self[at:at+n])
					for i := range x {
						want := x[i]
						if i >= at && i < at+n {
							want = f.one(x[i])
						}
						require.Equal(t, bitsOf(want), bitsOf(apart[i]), "%s of %d at %d, element %d", f.name, n, at, i)
						require.Equal(t, bitsOf(want), bitsOf(self[i]), "%s of %d onto itself at %d, element %d", f.name, n, at, i)
					}
				}
			}
		}
	}
}

// Types of the caller's own, and a dst that is too short.
func TestSlicesOfDefinedTypesAndShortOnes(t *testing.T) {
	type half float32
	onBothPaths(t, func(t *testing.T) {
		x, y := []half{0.3, -2, 5, 1, 1, 1, 1, 1, 7}, make([]half, 9)
		SiLUSlice(y, x)
		require.Equal(t, half(SiLU(float32(7))), y[8])
		require.Panics(t, func() { ExpSlice(make([]float32, 8), make([]float32, 9)) })
		require.Panics(t, func() { ExpSlice(make([]float64, 15), make([]float64, 16)) })
		ExpSlice([]float32{}, nil)
	})
}

// A fused product, or a polynomial added in another order, is seen: the lanes keep neither. In
// float32 nearly all of it would round away; float64 takes the same instructions.
func TestSlicesNegativeControl(t *testing.T) {
	x := dense64(rand.New(rand.NewPCG(11, 12)))
	y := make([]float64, len(x))
	ExpSlice(y, x)
	require.Equal(t, -1, differs(y, x, Exp))
	for name, wrong := range map[string]func(r, t float64) float64{
		"all products fused": func(r, t float64) float64 {
			return math.FMA(-t, math.FMA(t, math.FMA(t, math.FMA(t, math.FMA(t, exp5, exp4), exp3), exp2), exp1), r)
		},
		"the last product fused": func(r, t float64) float64 {
			return math.FMA(-t, exp1+float64(t*(exp2+float64(t*(exp3+float64(t*(exp4+float64(t*exp5))))))), r)
		},
		"pairs first": func(r, t float64) float64 {
			t2 := float64(t * t)
			low, high := exp1+float64(t*exp2), exp3+float64(t*exp4)
			return r - float64(t*(low+float64(t2*(high+float64(t2*exp5)))))
		},
	} {
		exp := func(x float64) float64 { return expBy(x, wrong) }
		i := differs(y, x, exp)
		require.GreaterOrEqual(t, i, 0, name)
		t.Logf("%s: e^%x would be %x, is %x", name, x[i], exp(x[i]), y[i])
	}
	right := func(r, t float64) float64 {
		return r - float64(t*(exp1+float64(t*(exp2+float64(t*(exp3+float64(t*(exp4+float64(t*exp5)))))))))
	}
	require.Equal(t, -1, differs(y, x, func(x float64) float64 { return expBy(x, right) }))
}

// expBy is Exp with another c in its kernel, where Exp does not branch.
func expBy(x float64, c func(r, t float64) float64) float64 {
	if !(x >= -708 && x <= 709 && math.Abs(x) >= tiny) {
		return Exp(x)
	}
	k := int(float64(log2e*x) + math.Copysign(0.5, x))
	hi, lo := x-float64(float64(k)*ln2Hi), float64(float64(k)*ln2Lo)
	r := hi - lo
	p := c(r, float64(r*r))
	return scale(1-((lo-float64(r*p)/(2-p))-hi), k)
}

func TestSlicesAllocNothing(t *testing.T) {
	onBothPaths(t, func(t *testing.T) {
		x, wide := make([]float32, 37), make([]float64, 37)
		for i, f := range forms[float32]() {
			g := forms[float64]()[i].slice
			require.Zero(t, testing.AllocsPerRun(100, func() { f.slice(x, x); g(wide, wide) }), f.name)
		}
	})
}

func BenchmarkSlices(b *testing.B) {
	defer func(v bool) { vectorised = v }(vectorised)
	x, y := make([]float32, 4096), make([]float32, 4096)
	for i := range x {
		x[i] = float32(i%97)/3 - 20
	}
	for _, v := range []struct {
		name string
		on   bool
	}{{"plain", false}, {"lanes", vectorised}} {
		for _, f := range forms[float32]() {
			b.Run(f.name+"/"+v.name, func(b *testing.B) {
				vectorised = v.on
				for range b.N {
					f.slice(y, x)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(x)), "ns/element")
			})
		}
	}
}
