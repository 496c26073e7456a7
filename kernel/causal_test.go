package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
	"firstbit/reduce"
)

// A causal product against its definition, bit for bit: one Dot an element, in which an absent leaf is the
// product 0·−0 = −0. Orders, formats of partial sums, fusing, both sides, odd alignments, one head or two.
func TestCausalIsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, order := range orders {
		for _, acc := range []Fold{{Acc: lowp.FP32}, {Acc: lowp.BF16}, {Acc: lowp.FP16}, {Acc: lowp.FP32, FMA: true}} {
			for _, steps := range []int{1, 2, 7, 13} {
				for _, keep := range []side{pastOnly, futureOnly} {
					for heads := 1; heads <= 2; heads++ {
						acc.Program = reduce.MustOrder(order).Program(heads * steps)
						checkCausal(t, r, acc, AttentionShape{T: steps, P: 5}, heads*steps, keep)
					}
				}
			}
		}
	}
}

func checkCausal(t *testing.T, r *rand.Rand, f Fold, s AttentionShape, n int, keep side) {
	t.Helper()
	offset := r.IntN(3)
	w, x := random32(r, s.T*n+offset)[offset:], random32(r, n*s.P+offset)[offset:]
	clear(w[:len(w)/2]) // and zeros of both signs among the sums
	for i := range n {
		x[i*s.P] = Negzero[float32]()
	}
	got := make([]float32, s.T*s.P)
	causal(f, RowMajor(got, s.P), RowMajor(w, s.T).T(), RowMajor(x, s.P), s, keep)
	for step := range s.T {
		for j := range s.P {
			wi, xi := make([]float32, n), make([]float32, n)
			for i := range n {
				at := i % s.T
				if keep == pastOnly && at <= step || keep == futureOnly && at >= step {
					wi[i], xi[i] = w[i*s.T+step], x[i*s.P+j]
				} else {
					xi[i] = Negzero[float32]()
				}
			}
			want := Dot(f, wi, 1, xi, 1)
			requireSameBits(t, []float32{want}, got[step*s.P+j:][:1], "step %d, side %v, %d leaves, acc %v fma %v", step, keep, n, f.Acc, f.FMA)
		}
	}
}

// What the future holds, an infinity or a NaN, reaches nothing before it, forward or backward.
func TestTheFutureIsAbsent(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	s := AttentionShape{B: 1, T: 6, H: 2, KV: 1, P: 3}
	nq, nk := s.T*s.H*s.P, s.T*s.P
	for _, order := range orders {
		folds := AttentionFolds{P: inOrder(s.P), Keys: foldOf(order, s.T), DQ: foldOf(order, s.T), Queries: foldOf(order, s.H*s.T)}
		for _, poison := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
			q, k, v, do := random32(r, nq), random32(r, nk), random32(r, nk), random32(r, nq)
			clean := attend(s, folds, q, k, v, do)
			last := nk - s.P
			k[last], v[last] = poison, poison
			dirty := attend(s, folds, q, k, v, do)
			requireSameBits(t, clean[0][:nq-s.H*s.P], dirty[0][:nq-s.H*s.P], "o by %s", order)
			requireSameBits(t, clean[1][:nq-s.H*s.P], dirty[1][:nq-s.H*s.P], "dq by %s", order)
			require.False(t, finite(dirty[0]) && finite(dirty[1]), "the poison is seen by the last query")
		}
	}
	// An early query is absent from what later keys receive.
	folds := AttentionFolds{P: inOrder(s.P), Keys: inOrder(s.T), DQ: inOrder(s.T), Queries: inOrder(s.H * s.T)}
	q, k, v, do := random32(r, nq), random32(r, nk), random32(r, nk), random32(r, nq)
	clean := attend(s, folds, q, k, v, do)
	do[0] = float32(math.Inf(1))
	dirty := attend(s, folds, q, k, v, do)
	requireSameBits(t, clean[2][s.P:], dirty[2][s.P:], "dk")
	requireSameBits(t, clean[3][s.P:], dirty[3][s.P:], "dv")
	require.False(t, finite(dirty[3]))
	// Negative control: a zero in the sum is not the same as nothing.
	one, zeros := make([]float32, 1), make([]float32, 2)
	MatMul(one, 1, RowMajor(zeros, 2), RowMajor([]float32{1, float32(math.Inf(1))}, 1), 1, 1, 2, inOrder(2))
	require.False(t, finite(one))
}

// A query's result does not depend on how much comes after it, where its order does not.
func TestLongerSequencesChangeNothingBefore(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	long := AttentionShape{B: 1, T: 33, H: 2, KV: 2, P: 8}
	short, row := long, long.H*long.P
	short.T = 9
	q, k, v, do := random32(r, 33*row), random32(r, 33*row), random32(r, 33*row), random32(r, 33*row)
	folds := func(t int) AttentionFolds {
		return AttentionFolds{P: inOrder(8), Keys: inOrder(t), DQ: inOrder(t), Queries: inOrder(t)}
	}
	a := attend(long, folds(33), q, k, v, do)
	b := attend(short, folds(9), q[:9*row], k[:9*row], v[:9*row], do[:9*row])
	requireSameBits(t, b[0], a[0][:9*row], "o")
	requireSameBits(t, b[1], a[1][:9*row], "dq")
	require.NotEqual(t, b[3], a[3][:9*row], "negative control: a key does hear of later queries")
}

// attend is o, dq, dk, dv.
func attend(s AttentionShape, f AttentionFolds, q, k, v, do []float32) [4][]float32 {
	o, probs := make([]float32, len(q)), make([]float32, s.B*s.H*s.T*s.T)
	dq, dk, dv := make([]float32, len(q)), make([]float32, len(k)), make([]float32, len(v))
	Attention(o, probs, q, k, v, s, 0.5, f)
	AttentionBackward(dq, dk, dv, do, q, k, v, probs, s, 0.5, f)
	return [4][]float32{o, dq, dk, dv}
}

func finite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// Attention against the textbook in float64: no order, no tiles, no shared helper.
func TestAttentionIsTheTextbook(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	s := AttentionShape{B: 2, T: 7, H: 4, KV: 2, P: 3}
	q, k, v := normal(r, s.B*s.T*s.H*s.P), normal(r, s.B*s.T*s.KV*s.P), normal(r, s.B*s.T*s.KV*s.P)
	o, probs := make([]float64, len(q)), make([]float64, s.B*s.H*s.T*s.T)
	folds := AttentionFolds{P: inOrder(s.P), Keys: inOrder(s.T)}
	Attention(o, probs, q, k, v, s, 0.7, folds)
	at := func(x []float64, heads, b, step, h, p int) float64 { return x[((b*s.T+step)*heads+h)*s.P+p] }
	for b := range s.B {
		for h := range s.H {
			for step := range s.T {
				var top [3]float64
				bottom := 0.0
				for key := range step + 1 {
					score := 0.0
					for p := range s.P {
						score += at(q, s.H, b, step, h, p) * at(k, s.KV, b, key, h/2, p)
					}
					e := math.Exp(0.7 * score)
					bottom += e
					for p := range s.P {
						top[p] += e * at(v, s.KV, b, key, h/2, p)
					}
				}
				for p := range s.P {
					require.InDelta(t, top[p]/bottom, at(o, s.H, b, step, h, p), 1e-12)
				}
			}
		}
	}
}

// A fold of another length is a caller's bug, told rather than added up.
func TestFoldsOfAnotherLengthPanic(t *testing.T) {
	x, y, one := ones32(12), make([]float32, 12), make([]float32, 12)
	ints := make([]int32, 13)
	four, three := inOrder(4), inOrder(3) // a short fold runs into no end of a slice: only the check stops it
	short := func(n int) Fold { return inOrder(n - 1) }
	for name, do := range map[string]func(f Fold){
		"rmsnorm":        func(f Fold) { RMSNorm(y, one[:3], x, x[:4], 4, 1, f) },
		"rmsnorm.bwd":    func(f Fold) { RMSNormBackward(y, x, x, x[:4], x[:3], 4, f) },
		"softmax":        func(f Fold) { Softmax(y, x, 4, f) },
		"softmax.bwd":    func(f Fold) { SoftmaxBackward(y, x, x, 4, f) },
		"cross-entropy":  func(f Fold) { CrossEntropy(one[:3], y[:3], x, ints[:3], 4, f) },
		"normalize":      func(f Fold) { Normalize(y, one[:3], x, 4, 1, f) },
		"normalize.bwd":  func(f Fold) { NormalizeBackward(y, x, x, x[:3], 4, 1, f) },
		"share":          func(f Fold) { ProbShare(y, x, 4, f) },
		"share.bwd":      func(f Fold) { ProbShareBackward(y, x, x, 4, f) },
		"combine":        func(f Fold) { CombineSlots(y[:3], x, ints[:12], 4, 1, f) },
		"sum of squares": func(f Fold) { SumSquares(x[:4], f) },
		"aux loss":       func(f Fold) { AuxLoss(x, ints[:4], 4, 8, 1, inOrder, f, three, nil) },
		"z loss":         func(f Fold) { ZLoss(x, 4, 1, f, three) },
		"z loss.bwd":     func(f Fold) { ZLossBackward(y, x, 4, 1, 1, f) },
		"norm weight":    func(f Fold) { RMSNormWeightBackward(y[:3], x, x, x[:4], 3, f) },
		"attention": func(f Fold) {
			attend(shape4, AttentionFolds{P: inOrder(1), Keys: f, DQ: four, Queries: four}, x[:4], x[:4], x[:4], x[:4])
		},
		"attention dq": func(f Fold) {
			attend(shape4, AttentionFolds{P: inOrder(1), Keys: four, DQ: f, Queries: four}, x[:4], x[:4], x[:4], x[:4])
		},
		"attention dk dv": func(f Fold) {
			attend(shape4, AttentionFolds{P: inOrder(1), Keys: four, DQ: four, Queries: f}, x[:4], x[:4], x[:4], x[:4])
		},
	} {
		require.PanicsWithValue(t, lengthMessage, func() { do(three) }, name)
		require.NotPanics(t, func() { do(four) }, name)
	}
	require.PanicsWithValue(t, lengthMessage, func() { AuxLoss(x, ints[:4], 4, 8, 1, short, four, three, nil) })
	require.PanicsWithValue(t, lengthMessage, func() { AuxLoss(x, ints[:4], 4, 8, 1, inOrder, four, inOrder(2), nil) })
	require.PanicsWithValue(t, lengthMessage, func() { EmbeddingBackward(y, x[:2], ints[:2], 1, short) })
	require.PanicsWithValue(t, lengthMessage, func() { ZLoss(x, 4, 1, four, inOrder(2)) })
}

const lengthMessage = "kernel: a fold of another length than what it adds"

var shape4 = AttentionShape{B: 1, T: 4, H: 1, KV: 1, P: 1}

// Kernels in steady state allocate nothing; a pool may be emptied by the collector, hence the average.
func TestKernelsAllocateNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	s := AttentionShape{B: 1, T: 16, H: 2, KV: 1, P: 4}
	q, k, o, probs := random32(r, 128), random32(r, 64), make([]float32, 128), make([]float32, 512)
	dq, dk, dv := make([]float32, 128), make([]float32, 64), make([]float32, 64)
	folds := AttentionFolds{P: inOrder(4), Keys: inOrder(16), DQ: foldOf("splitk(4)", 16), Queries: inOrder(32)}
	ids, order, inverse := make([]int32, 100), make([]int32, 100), make([]int32, 100)
	experts := 50
	offsets, dw, dy := make([]int32, experts+1), make([]float32, experts), random32(r, 100)
	for i := range ids {
		ids[i] = int32(r.IntN(experts))
	}
	orderOf := reduce.MustOrder("seq")
	programs := make([]Fold, 101)
	for n := range programs {
		programs[n] = Fold{Program: orderOf.Program(n), Acc: lowp.FP32}
	}
	for name, f := range map[string]func(){
		"attention":     func() { Attention(o, probs, q, k, k, s, 1, folds) },
		"attention.bwd": func() { AttentionBackward(dq, dk, dv, o, q, k, k, probs, s, 1, folds) },
		"embedding.bwd": func() { EmbeddingBackward(dw, dy, ids, 1, func(n int) Fold { return programs[n] }) },
		"permute":       func() { Permute(order, inverse, offsets, ids, experts, 1) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	kept := []int32(nil)
	require.NotZero(t, testing.AllocsPerRun(100, func() { kept = make([]int32, experts) }), "negative control")
	_ = kept
}
