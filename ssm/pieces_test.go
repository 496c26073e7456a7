package ssm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

func TestConvolutionGradients(t *testing.T) {
	checkConvolutionGradients(t, documents{})
	checkConvolutionGradients(t, documents{check.Starts(6, []int{2, 3}, []int{5}), 0, 6})
}

func checkConvolutionGradients(t *testing.T, d documents) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 3))
	s := convShape{B: 2, T: 6, C: 3, K: 4, documents: d}
	rows := s.B * s.T
	x, w, bias, y := check.Normal(r, rows*s.C), check.Normal(r, s.C*s.K), check.Normal(r, s.C), make([]float64, rows*s.C)
	f := func() []float64 { causalConv(y, x, nil, w, bias, s, inOrder(s.K)); return y }
	f()
	for i, got := range y { // the definition
		c, at, want := i%s.C, i/s.C, bias[i%s.C]
		for k := range s.K {
			if t := at%s.T - s.K + 1 + k; t >= 0 && t >= d.begin(at/s.T, at%s.T) {
				want += w[c*s.K+k] * x[(at-s.K+1+k)*s.C+c]
			}
		}
		require.InDelta(t, want, got, 1e-12)
	}
	check.Gradient(t, "conv dx", x, f, func(dy []float64) []float64 {
		dx := make([]float64, len(x))
		causalConvBackward(dx, dy, nil, w, s, inOrder(s.K))
		return dx
	})
	dw, db := make([]float64, len(w)), make([]float64, len(bias))
	check.Gradient(t, "conv dw", w, f, func(dy []float64) []float64 {
		causalConvWeightBackward(dw, db, dy, x, nil, s, foldOf("pairwise", rows))
		return dw
	})
	check.Gradient(t, "conv dbias", bias, f, func(dy []float64) []float64 {
		causalConvWeightBackward(dw, db, dy, x, nil, s, inOrder(rows))
		return db
	})
}

// A convolution's sums, forward and backward, by their plan; taps outside the sequence are absent.
func TestConvolutionAddsByItsPlan(t *testing.T) {
	for _, order := range check.Orders {
		for _, n := range []int{1, 2, 7, 19} {
			f, tree := foldOf(order, n), reduce.MustOrder(order).Tree(n)
			one := convShape{B: 1, T: n, C: 1, K: n}
			check.Order(t, order+" taps", n, tree, lowp.FP32, func(x []float32) float32 {
				y := make([]float32, n)
				causalConv(y, x, nil, check.Ones(n), []float32{kernel.Negzero[float32]()}, one, f)
				return y[n-1]
			})
			check.Order(t, order+" dx", n, tree, lowp.FP32, func(x []float32) float32 {
				dx := make([]float32, n)
				causalConvBackward(dx, check.Ones(n), nil, x, one, f)
				return dx[0]
			})
			for name, pick := range map[string]func(dw, db []float32) float32{
				"dw": func(dw, _ []float32) float32 { return dw[0] }, "dbias": func(_, db []float32) float32 { return db[0] }} {
				check.Order(t, order+" "+name, n, tree, lowp.FP32, func(x []float32) float32 {
					dw, db := make([]float32, 1), make([]float32, 1)
					causalConvWeightBackward(dw, db, x, check.Ones(n), nil, convShape{B: 1, T: n, C: 1, K: 1}, f)
					return pick(dw, db)
				})
			}
		}
	}
}

func TestSiLUAndGatedNormGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const rows, groups, d = 3, 2, 5
	n := rows * groups * d
	x, z, w, y, rstd := check.Normal(r, n), check.Normal(r, n), check.Normal(r, groups*d), make([]float64, n), make([]float64, rows*groups)
	check.Gradient(t, "silu", x, func() []float64 { silu(y, x); return y }, func(dy []float64) []float64 {
		dx := make([]float64, n)
		siluBackward(dx, dy, x)
		return dx
	})
	f := func() []float64 { gatedNorm(y, rstd, x, z, w, d, 1e-5, inOrder(d)); return y }
	f()
	for row := range rows {
		for g := range groups {
			sum := 0.0
			at := (row*groups + g) * d
			gate := func(i int) float64 { return x[i] * z[i] / (1 + math.Exp(-z[i])) }
			for i := at; i < at+d; i++ {
				sum += gate(i) * gate(i)
			}
			for i := at; i < at+d; i++ {
				require.InDelta(t, gate(i)/math.Sqrt(sum/d+1e-5)*w[g*d+i-at], y[i], 1e-12)
			}
		}
	}
	both := func(dy []float64) (dx, dz []float64) {
		dx, dz = make([]float64, n), make([]float64, n)
		gatedNormBackward(dx, dz, dy, x, z, w, rstd, d, inOrder(d))
		return dx, dz
	}
	check.Gradient(t, "gated norm dx", x, f, func(dy []float64) []float64 { dx, _ := both(dy); return dx })
	check.Gradient(t, "gated norm dz", z, f, func(dy []float64) []float64 { _, dz := both(dy); return dz })
	check.Gradient(t, "gated norm dw", w, f, func(dy []float64) []float64 {
		dw := make([]float64, groups*d)
		gatedNormWeightBackward(dw, dy, x, z, rstd, d, inOrder(rows))
		return dw
	})
}

func TestTimeStepGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	const rows, heads, least = 5, 3, 0.5
	n := rows * heads
	raw, bias, aLog := check.Normal(r, n), check.Normal(r, heads), check.Normal(r, heads)
	// dt and la as one output, so that both gradients meet in raw.
	y := make([]float64, 2*n)
	f := func() []float64 { timeStep(y[:n], y[n:], raw, bias, aLog, least); return y }
	f()
	held := 0
	for i := range n {
		want := math.Log1p(math.Exp(raw[i] + bias[i%heads]))
		if want < least {
			want, held = least, held+1
		}
		require.InDelta(t, want, y[i], 1e-12)
		require.InDelta(t, -math.Exp(aLog[i%heads])*want, y[n+i], 1e-12)
	}
	require.Positive(t, held, "the bound must hold somewhere, or it is not tested")
	draw := func(dy []float64) []float64 {
		d := make([]float64, n)
		timeStepBackward(d, dy[:n], dy[n:], raw, bias, aLog, least)
		return d
	}
	check.Gradient(t, "raw", raw, f, draw)
	check.Gradient(t, "bias", bias, f, func(dy []float64) []float64 {
		db := make([]float64, heads)
		kernel.SumRows(inOrder(rows), db, draw(dy), heads)
		return db
	})
	check.Gradient(t, "a_log", aLog, f, func(dy []float64) []float64 {
		da := make([]float64, heads)
		decayBackward(da, dy[n:], y[:n], aLog, inOrder(rows))
		return da
	})
}

// The sums of the scan's parameter gradients by their plan.
func TestScanParameterGradientsAddByTheirPlan(t *testing.T) {
	for _, order := range check.Orders {
		const n = 19
		f, tree, one := foldOf(order, n), reduce.MustOrder(order).Tree(n), make([]float32, 1)
		check.Order(t, order+" dD over rows", n, tree, lowp.FP32, func(x []float32) float32 {
			skipBackward(one, x, check.Ones(n), inOrder(1), f)
			return one[0]
		})
		check.Order(t, order+" dD over the head", n, tree, lowp.FP32, func(x []float32) float32 {
			skipBackward(one, x, check.Ones(n), f, inOrder(1))
			return one[0]
		})
		check.Order(t, order+" dA", n, tree, lowp.FP32, func(x []float32) float32 {
			decayBackward(one, x, check.Ones(n), []float32{0}, f)
			return -one[0]
		})
		check.Order(t, order+" gated norm dw", n, tree, lowp.FP32, func(x []float32) float32 {
			z, u := make([]float32, n), make([]float32, n)
			for i := range z {
				z[i], u[i] = 64, 1./64 // u·silu(z) is one
			}
			gatedNormWeightBackward(one, x, u, z, check.Ones(n), 1, f)
			return one[0]
		})
		// db and dc over the heads of a group
		s := ssdShape{B: 1, T: 1, H: n, P: 1, G: 1, N: 1, Chunk: 1}
		folds := ssdFolds{N: inOrder(1), P: inOrder(1), State: inOrder(1), Heads: f, Steps: inOrder}
		for name, pick := range map[string]func(g ssdGradients[float32]) float32{
			"db": func(g ssdGradients[float32]) float32 { return g.B[0] }, "dc": func(g ssdGradients[float32]) float32 { return g.C[0] }} {
			check.Order(t, order+" "+name+" over heads", n, tree, lowp.FP32, func(x []float32) float32 {
				v := func(k int) []float32 { return make([]float32, k) }
				g := ssdGradients[float32]{X: v(n), B: v(1), C: v(1), DT: v(n), LA: v(n)}
				ssdBackward(g, x, nil, check.Ones(n), check.Ones(1), check.Ones(1), check.Ones(n), v(n), v(n), nil, s, folds)
				return pick(g)
			})
		}
	}
}

func benchScan(b *testing.B, do func(k *ssdCase[float32], f ssdFolds)) {
	s := ssdShape{B: 8, T: 64, H: 8, P: 16, G: 2, N: 16, Chunk: 16}
	k, w := newSSDCase(s), &ssdCase[float32]{ssdShape: s}
	for _, p := range []struct {
		dst *[]float32
		src []float64
	}{{&w.x, k.x}, {&w.b, k.b}, {&w.c, k.c}, {&w.dt, k.dt}, {&w.la, k.la}, {&w.d, k.d}, {&w.y, k.y}, {&w.last, k.last}} {
		for _, v := range p.src {
			*p.dst = append(*p.dst, float32(v))
		}
	}
	f := allFolds(s, "seq")
	w.run(f)
	for b.Loop() {
		do(w, f)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.B*s.T), "ns/token")
}

func BenchmarkSSD(b *testing.B) {
	benchScan(b, func(k *ssdCase[float32], f ssdFolds) { k.run(f) })
}

// The recurrence, step by step, beside which the chunked scan is timed.
func BenchmarkSSDNaive(b *testing.B) {
	benchScan(b, func(k *ssdCase[float32], _ ssdFolds) {
		ssdNaive(k.y, make([]float32, k.B*k.H*k.P*k.N), k.x, k.b, k.c, k.dt, k.la, k.d, nil, k.ssdShape)
	})
}

func BenchmarkSSDBackward(b *testing.B) {
	g := ssdGradients[float32]{}
	benchScan(b, func(k *ssdCase[float32], f ssdFolds) {
		if g.X == nil {
			v := func(x []float32) []float32 { return make([]float32, len(x)) }
			g = ssdGradients[float32]{X: v(k.x), B: v(k.b), C: v(k.c), DT: v(k.dt), LA: v(k.la)}
		}
		ssdBackward(g, k.y, nil, k.x, k.b, k.c, k.dt, k.la, k.d, nil, k.ssdShape, f)
	})
}

func BenchmarkCausalConv(b *testing.B) {
	s := convShape{B: 8, T: 64, C: 192, K: 4}
	n := s.B * s.T * s.C
	x, w, bias, y := check.Ones(n), check.Ones(s.C*s.K), check.Ones(s.C), make([]float32, n)
	for b.Loop() {
		causalConv(y, x, nil, w, bias, s, inOrder(s.K))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/element")
}

func BenchmarkCausalConvWeightBackward(b *testing.B) {
	s := convShape{B: 8, T: 64, C: 192, K: 4}
	n := s.B * s.T * s.C
	x, dw, db := check.Ones(n), make([]float32, s.C*s.K), make([]float32, s.C)
	for b.Loop() {
		causalConvWeightBackward(dw, db, x, x, nil, s, inOrder(s.B*s.T))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/element")
}

func benchElements(b *testing.B, do func(y, x, z, w, rstd []float32, d int)) {
	const rows, groups, d = 512, 2, 64
	n := rows * groups * d
	y, x, z, w, rstd := make([]float32, n), check.Ones(n), check.Ones(n), check.Ones(groups*d), make([]float32, rows*groups)
	for b.Loop() {
		do(y, x, z, w, rstd, d)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/element")
}

func BenchmarkSiLU(b *testing.B) {
	benchElements(b, func(y, x, _, _, _ []float32, _ int) { silu(y, x) })
}

func BenchmarkSiLUBackward(b *testing.B) {
	benchElements(b, func(y, x, z, _, _ []float32, _ int) { siluBackward(y, x, z) })
}

func BenchmarkGatedNorm(b *testing.B) {
	benchElements(b, func(y, x, z, w, rstd []float32, d int) { gatedNorm(y, rstd, x, z, w, d, 1e-5, inOrder(d)) })
}

func BenchmarkGatedNormBackward(b *testing.B) {
	dz := make([]float32, 512*2*64)
	benchElements(b, func(y, x, z, w, rstd []float32, d int) { gatedNormBackward(y, dz, x, x, z, w, rstd, d, inOrder(d)) })
}

func BenchmarkTimeStep(b *testing.B) {
	benchElements(b, func(y, x, z, w, _ []float32, _ int) { timeStep(y, z, x, w, w, 0) })
}

// The scan's decays against the exponentials they stand for, in chunks about the width of registers.
func TestScanDecaysAreExponentials(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 54))
	for chunk := 1; chunk < 36; chunk++ {
		s := ssdShape{B: 1, T: chunk, H: 2, P: 3, G: 1, N: 2, Chunk: chunk}
		x, b, c := check.Random(r, s.T*s.H*s.P), check.Random(r, s.T*s.N), check.Random(r, s.T*s.N)
		dt, la := check.Ones(s.T*s.H), make([]float32, s.T*s.H)
		for i := range la {
			la[i] = -float32(math.Abs(r.NormFloat64())) * []float32{0, 1e-9, 0.1, 30, 800}[r.IntN(5)]
		}
		w := newScan(x, b, c, dt, la, s, ssdFolds{N: inOrder(s.N), Steps: inOrder})
		w.enter(0, 0, 0)
		for h := range s.H {
			w.head(h)
			sum, n := kernel.Negzero[float32](), w.n
			a, begun, left, decay, weight := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n*n), make([]float32, n*n)
			for i := range n {
				sum += la[i*s.H+h]
				a[i] = sum
				begun[i] = libm.ExpOf(sum)
				for j := range i + 1 {
					decay[i*n+j] = libm.ExpOf(a[i] - a[j])
					weight[i*n+j] = w.scores[i*n+j] * decay[i*n+j]
				}
			}
			for i := range n {
				left[i] = libm.ExpOf(sum - a[i])
				check.SameBits(t, decay[i*n:][:i+1], w.decay[i*n:][:i+1], "decay at %d of %d", i, n)
				check.SameBits(t, weight[i*n:][:i+1], w.weight[i*n:][:i+1], "weight at %d of %d", i, n)
			}
			check.SameBits(t, begun, w.begun[:n], "begun of %d", n)
			check.SameBits(t, left, w.left[:n], "left of %d", n)
		}
		w.release()
	}
}

func TestDecayAddsByItsPlan(t *testing.T) {
	check.Sums(t, func(order string, n int) map[string]reduce.Summer {
		return map[string]reduce.Summer{"decay by token": func(x []float32) float32 {
			da := make([]float32, 1)
			decayBackwardByToken(da, x, check.Ones(n), []float32{0}, foldOf(order, n))
			return -da[0]
		}}
	})
}

// Whole rows are handed to libm: they are the formulas element by element, bit for bit, at widths about those of vector registers, with
// arguments past every edge of the exponential.
func TestGatesBySliceAreTheirFormulas(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for width := 1; width < 40; width++ {
		const rows = 3
		x, dy := check.Wide(r, rows*width), check.Random(r, rows*width)
		got, want := make([]float32, len(x)), make([]float32, len(x))
		each := func(f func(i int) float32) []float32 {
			for i := range want {
				want[i] = f(i)
			}
			return want
		}
		slope := func(x float32) float32 {
			s := libm.Sigmoid(x)
			return s * (1 + float32(x*(1-s)))
		}
		silu(got, x)
		check.SameBits(t, each(func(i int) float32 { return libm.SiLU(x[i]) }), got, "silu of %d", width)
		siluBackward(got, dy, x)
		check.SameBits(t, each(func(i int) float32 { return dy[i] * slope(x[i]) }), got, "silu backward of %d", width)
		g := gated(dy, x)
		check.SameBits(t, each(func(i int) float32 { return dy[i] * libm.SiLU(x[i]) }), *g, "gate of %d", width)
		kernel.GiveBack(g)
	}
}

// Decay's gradient by token is the same however the sequences are dealt to shards, and computes what the plain form does.
func TestDecayByToken(t *testing.T) {
	const rows, d = check.ShardB * check.ShardT, 3
	check.Shards(t, func(r *rand.Rand) (canonical, controls map[string]check.Shardable) {
		x, y, aLog := check.Random(r, rows*d), check.Random(r, rows*d), check.Random(r, d)
		of := func(decay func(da, dy, dt, aLog []float32, f kernel.Fold)) map[string]check.Shardable {
			return map[string]check.Shardable{"decay": func(lo, hi int) []float32 {
				n, da := (hi-lo)*check.ShardT, make([]float32, d)
				decay(da, x[lo*check.ShardT*d:][:n*d], y[lo*check.ShardT*d:][:n*d], aLog, kernel.Fold{Program: reduce.Blocked(check.ShardT).Program(n)})
				return da
			}}
		}
		return of(decayBackwardByToken[float32]), of(decayBackward[float32])
	})
	r := rand.New(rand.NewPCG(44, 1))
	const n, e = 12, 4
	x, dt, aLog := check.Normal(r, n*e), check.Normal(r, n*e), check.Normal(r, e)
	want, got := make([]float64, e), make([]float64, e)
	decayBackward(want, x, dt, aLog, inOrder(n))
	decayBackwardByToken(got, x, dt, aLog, inOrder(n))
	require.InDeltaSlice(t, want, got, 1e-12)
	require.NotZero(t, want[0])
	require.InDelta(t, -libm.ExpOf(aLog[0]), want[0]/kernel.Dot(inOrder(n), x, e, dt, e), 1e-12)
}
