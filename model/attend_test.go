package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/reduce"
)

// What the future holds, an infinity or a NaN, reaches nothing before it, forward or backward.
func TestTheFutureIsAbsent(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	s := attentionShape{B: 1, T: 6, H: 2, KV: 1, P: 3}
	nq, nk := s.T*s.H*s.P, s.T*s.P
	for _, order := range check.Orders {
		folds := attentionFolds{P: inOrder(s.P), Keys: foldOf(order, s.T), DQ: foldOf(order, s.T), Queries: foldOf(order, s.H*s.T)}
		for _, poison := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
			q, k, v, do := check.Random(r, nq), check.Random(r, nk), check.Random(r, nk), check.Random(r, nq)
			clean := attended(s, folds, q, k, v, do)
			last := nk - s.P
			k[last], v[last] = poison, poison
			dirty := attended(s, folds, q, k, v, do)
			check.SameBits(t, clean[0][:nq-s.H*s.P], dirty[0][:nq-s.H*s.P], "o by %s", order)
			check.SameBits(t, clean[1][:nq-s.H*s.P], dirty[1][:nq-s.H*s.P], "dq by %s", order)
			require.False(t, finite(dirty[0]) && finite(dirty[1]), "the poison is seen by the last query")
		}
	}
	// An early query is absent from what later keys receive.
	folds := attentionFolds{P: inOrder(s.P), Keys: inOrder(s.T), DQ: inOrder(s.T), Queries: inOrder(s.H * s.T)}
	q, k, v, do := check.Random(r, nq), check.Random(r, nk), check.Random(r, nk), check.Random(r, nq)
	clean := attended(s, folds, q, k, v, do)
	do[0] = float32(math.Inf(1))
	dirty := attended(s, folds, q, k, v, do)
	check.SameBits(t, clean[2][s.P:], dirty[2][s.P:], "dk")
	check.SameBits(t, clean[3][s.P:], dirty[3][s.P:], "dv")
	require.False(t, finite(dirty[3]))
	// Negative control: a zero in the sum is not the same as nothing.
	one, zeros := make([]float32, 1), make([]float32, 2)
	kernel.MatMul(one, 1, kernel.RowMajor(zeros, 2), kernel.RowMajor([]float32{1, float32(math.Inf(1))}, 1), 1, 1, 2, inOrder(2))
	require.False(t, finite(one))
}

// A query's result does not depend on how much comes after it, where its order does not.
func TestLongerSequencesChangeNothingBefore(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	long := attentionShape{B: 1, T: 33, H: 2, KV: 2, P: 8}
	short, row := long, long.H*long.P
	short.T = 9
	q, k, v, do := check.Random(r, 33*row), check.Random(r, 33*row), check.Random(r, 33*row), check.Random(r, 33*row)
	folds := func(t int) attentionFolds {
		return attentionFolds{P: inOrder(8), Keys: inOrder(t), DQ: inOrder(t), Queries: inOrder(t)}
	}
	a := attended(long, folds(33), q, k, v, do)
	b := attended(short, folds(9), q[:9*row], k[:9*row], v[:9*row], do[:9*row])
	check.SameBits(t, b[0], a[0][:9*row], "o")
	check.SameBits(t, b[1], a[1][:9*row], "dq")
	require.NotEqual(t, b[3], a[3][:9*row], "negative control: a key does hear of later queries")
}

// attended is o, dq, dk, dv.
func attended(s attentionShape, f attentionFolds, q, k, v, do []float32) [4][]float32 {
	o, probs := make([]float32, len(q)), make([]float32, s.B*s.H*s.T*s.T)
	dq, dk, dv := make([]float32, len(q)), make([]float32, len(k)), make([]float32, len(v))
	attend(o, probs, q, k, v, s, 0.5, f)
	attendBackward(dq, dk, dv, do, q, k, v, probs, s, 0.5, f)
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
	s := attentionShape{B: 2, T: 7, H: 4, KV: 2, P: 3}
	q, k, v := check.Normal(r, s.B*s.T*s.H*s.P), check.Normal(r, s.B*s.T*s.KV*s.P), check.Normal(r, s.B*s.T*s.KV*s.P)
	o, probs := make([]float64, len(q)), make([]float64, s.B*s.H*s.T*s.T)
	folds := attentionFolds{P: inOrder(s.P), Keys: inOrder(s.T)}
	attend(o, probs, q, k, v, s, 0.7, folds)
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

var shape4 = attentionShape{B: 1, T: 4, H: 1, KV: 1, P: 1}

// dv adds the queries of the heads of a group, heads outer, by its own order.
func TestAttentionQueriesAddByTheirPlan(t *testing.T) {
	const heads, n = 2, 4 // two query heads on one key-value head, four queries
	for _, order := range check.Orders {
		folds := attentionFolds{P: inOrder(1), Keys: inOrder(n), DQ: inOrder(n), Queries: foldOf(order, heads*n)}
		s := attentionShape{B: 1, T: n, H: heads, KV: 1, P: 1}
		check.Order(t, "dv by "+order, heads*n, reduce.MustOrder(order).Tree(heads*n), lowp.FP32, func(x []float32) float32 {
			do, probs := make([]float32, n*heads), make([]float32, heads*n*n)
			for h := range heads {
				for q := range n {
					do[q*heads+h] = x[h*n+q]
					probs[(h*n+q)*n] = 1 // every query attends to key 0 alone
				}
			}
			dq, dk, dv := make([]float32, n*heads), make([]float32, n), make([]float32, n)
			attendBackward(dq, dk, dv, do, check.Ones(n*heads), check.Ones(n), make([]float32, n), probs, s, 1, folds)
			return dv[0]
		})
	}
}

// Of attention's sums: p·v over the keys, and dq, over the keys by its own order.
func TestAttentionAddsByItsPlan(t *testing.T) {
	const n = 8
	for _, order := range check.Orders {
		tree := reduce.MustOrder(order).Tree(n)
		// One head of width 1: q = 0 makes every p of the last query 1/8, exact; v = 8·x gives back x.
		check.Order(t, "p·v by "+order, n, tree, lowp.FP32, func(x []float32) float32 {
			v, o, probs := make([]float32, n), make([]float32, n), make([]float32, n*n)
			for i := range v {
				v[i] = 8 * x[i]
			}
			folds := attentionFolds{P: inOrder(1), Keys: foldOf(order, n)}
			attend(o, probs, make([]float32, n), check.Ones(n), v, attentionShape{B: 1, T: n, H: 1, KV: 1, P: 1}, 1, folds)
			return o[n-1]
		})
		// dq of the last query is Σ_j ds_j·k_j: p = 1 and dp = 0 or 1 would mix the sums, so ds is 1 by
		// p = 1, dp − Σp·dp = 1 − 0 for keys whose p·dp cancels: v = ±1 in turn.
		check.Order(t, "dq by "+order, n, tree, lowp.FP32, func(x []float32) float32 {
			v, k, probs := make([]float32, n), make([]float32, n), make([]float32, n*n)
			for j := range n {
				v[j] = float32(1 - 2*(j%2))
				k[j] = x[j] * v[j]
				probs[(n-1)*n+j] = 1
			}
			dq, dk, dv := make([]float32, n), make([]float32, n), make([]float32, n)
			folds := attentionFolds{P: inOrder(1), Keys: inOrder(n), DQ: foldOf(order, n), Queries: inOrder(n)}
			attendBackward(dq, dk, dv, check.Ones(n), check.Ones(n), k, v, probs, attentionShape{B: 1, T: n, H: 1, KV: 1, P: 1}, 1, folds)
			return dq[n-1]
		})
	}
}

func TestFoldsOfAnotherLengthPanic(t *testing.T) {
	x, y, loss, ints := check.Ones(12), make([]float32, 12), make([]float32, 3), make([]int32, 13)
	four := inOrder(4)
	check.AnotherLength(t, four, inOrder(3), map[string]func(kernel.Fold){
		"cross-entropy": func(f kernel.Fold) { crossEntropy(loss, y[:3], x, ints[:3], 4, f) },
		"attention": func(f kernel.Fold) {
			attended(shape4, attentionFolds{P: inOrder(1), Keys: f, DQ: four, Queries: four}, x[:4], x[:4], x[:4], x[:4])
		},
		"attention dq": func(f kernel.Fold) {
			attended(shape4, attentionFolds{P: inOrder(1), Keys: four, DQ: f, Queries: four}, x[:4], x[:4], x[:4], x[:4])
		},
		"attention dk dv": func(f kernel.Fold) {
			attended(shape4, attentionFolds{P: inOrder(1), Keys: four, DQ: four, Queries: f}, x[:4], x[:4], x[:4], x[:4])
		},
	})
	require.PanicsWithValue(t, check.LengthMessage, func() { embeddingBackward(y, x[:2], ints[:2], 1, func(n int) kernel.Fold { return inOrder(n - 1) }) })
}

func TestEmbeddingAddsByItsPlan(t *testing.T) {
	check.Sums(t, func(order string, n int) map[string]reduce.Summer {
		f := foldOf(order, n)
		return map[string]reduce.Summer{
			"embedding": func(x []float32) float32 {
				dw := make([]float32, 1)
				embeddingBackward(dw, x, make([]int32, n), 1, func(int) kernel.Fold { return f })
				return dw[0]
			},
			"embedding of all": func(x []float32) float32 {
				dw := make([]float32, 1)
				embeddingBackwardAll(dw, x, make([]int32, n), 1, f)
				return dw[0]
			},
		}
	})
}

// Cross-entropy's sum against the tree itself, through the gradient: p = exp(x − m)/Σ exp(x − m).
func TestCrossEntropyAddsByItsPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 19
	for _, order := range check.Orders {
		x, f := check.Random(r, n), foldOf(order, n)
		loss, lse, p, e := make([]float32, 1), make([]float32, 1), make([]float32, n), make([]float32, n)
		crossEntropy(loss, lse, x, []int32{3}, n, f)
		crossEntropyBackward(p, x, lse, []int32{3}, n, 0, 1)
		m := nn.Largest(x)
		for i, v := range x {
			e[i] = libm.ExpOf(v - m)
		}
		sum := reduce.MustOrder(order).Tree(n).Sum(e, lowp.FP32)
		check.SameBits(t, []float32{m + libm.LogOf(sum)}, lse, "cross-entropy by %s", order)
		require.InDelta(t, float64(e[0]/sum), float64(p[0]), 1e-6, "cross-entropy by %s", order)
	}
}

// Whole rows are handed to libm: they are the formulas element by element.
func TestCrossEntropyBySliceIsItsFormula(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for width := 1; width < 40; width++ {
		checkCrossEntropy(t, check.Wide(r, 3*width), width, inOrder(width))
	}
}

func checkCrossEntropy(t *testing.T, logits []float32, width int, f kernel.Fold) {
	rows := len(logits) / width
	targets, loss, lse := make([]int32, rows), make([]float32, rows), make([]float32, rows)
	got, want, wantLSE := make([]float32, len(logits)), make([]float32, len(logits)), make([]float32, rows)
	targets[rows-1] = int32(width - 1)
	crossEntropy(loss, lse, logits, targets, width, f)
	crossEntropyBackward(got, logits, lse, targets, width, 0, 0.3)
	for i, target := range targets {
		row, d := logits[i*width:][:width], want[i*width:][:width]
		m := nn.Largest(row)
		for j, v := range row {
			d[j] = libm.ExpOf(v - m)
		}
		wantLSE[i] = m + libm.LogOf(kernel.Sum(f, d, 1))
		for j, v := range row {
			d[j] = libm.ExpOf(v-wantLSE[i]) * 0.3
		}
		d[target] = (libm.ExpOf(row[target]-wantLSE[i]) - 1) * 0.3
	}
	check.SameBits(t, wantLSE, lse, "log-sum-exp of %d", width)
	check.SameBits(t, want, got, "cross entropy backward of %d", width)
}

// Kernels in steady state allocate nothing; a pool may be emptied by the collector, hence the average.
func TestAttentionAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	s := attentionShape{B: 1, T: 16, H: 2, KV: 1, P: 4}
	q, k, o, probs := check.Random(r, 128), check.Random(r, 64), make([]float32, 128), make([]float32, 512)
	dq, dk, dv := make([]float32, 128), make([]float32, 64), make([]float32, 64)
	folds := attentionFolds{P: inOrder(4), Keys: inOrder(16), DQ: foldOf("splitk(4)", 16), Queries: inOrder(32)}
	ids := make([]int32, 100)
	tokens := 50
	dw, dy := make([]float32, tokens), check.Random(r, 100)
	for i := range ids {
		ids[i] = int32(r.IntN(tokens))
	}
	orderOf := reduce.MustOrder("seq")
	programs := make([]kernel.Fold, 101)
	for n := range programs {
		programs[n] = kernel.Fold{Program: orderOf.Program(n), Acc: lowp.FP32}
	}
	for name, f := range map[string]func(){
		"attention":     func() { attend(o, probs, q, k, k, s, 1, folds) },
		"attention.bwd": func() { attendBackward(dq, dk, dv, o, q, k, k, probs, s, 1, folds) },
		"embedding.bwd": func() { embeddingBackward(dw, dy, ids, 1, func(n int) kernel.Fold { return programs[n] }) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	kept := []int32(nil)
	require.NotZero(t, testing.AllocsPerRun(100, func() { kept = make([]int32, tokens) }), "negative control")
	_ = kept
}

func TestEmbeddingOfAllIsItsGraftedTree(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	for _, order := range check.Orders {
		for _, n := range []int{1, 7, 32, 61} {
			for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16} {
				checkEmbeddingAll(t, r, order, n, kernel.Fold{Program: reduce.MustOrder(order).Program(n), Acc: acc})
			}
		}
	}
}

func checkEmbeddingAll(t *testing.T, r *rand.Rand, order string, n int, f kernel.Fold) {
	t.Helper()
	const v, d = 5, 3
	ids, dy := make([]int32, n), check.Random(r, n*d)
	present := make([][]int32, v)
	for i := range ids {
		ids[i] = int32(r.IntN(v - 1))
		present[ids[i]] = append(present[ids[i]], int32(i))
	}
	want, got := make([]float32, v*d), check.Random(r, v*d)
	for i := range want {
		want[i] = check.Grafted(order, n, present[i/d], func(at int) float32 { return dy[int(present[i/d][at])*d+i%d] }, f.Acc)
	}
	embeddingBackwardAll(got, dy, ids, d, f)
	check.SameBits(t, want, got, "embedding by %s over %d in %s", order, n, f.Acc)
}

// The gradient by token is the same however the sequences are dealt to shards; that by occurrences is not.
func TestShardsOfAnEmbeddingAreSubtrees(t *testing.T) {
	const rows, d = check.ShardB * check.ShardT, 3
	check.Shards(t, func(r *rand.Rand) (canonical, controls map[string]check.Shardable) {
		x, ids := check.Random(r, rows*d), make([]int32, rows)
		for i := range ids {
			ids[i] = int32(r.IntN(5))
		}
		of := func(run func(dw, dy []float32, ids []int32)) map[string]check.Shardable {
			return map[string]check.Shardable{"embedding": func(lo, hi int) []float32 {
				n, dw := (hi-lo)*check.ShardT, make([]float32, 5*d)
				run(dw, x[lo*check.ShardT*d:][:n*d], ids[lo*check.ShardT:][:n])
				return dw
			}}
		}
		blocked := func(n int) kernel.Fold { return kernel.Fold{Program: reduce.Blocked(check.ShardT).Program(n)} }
		return of(func(dw, dy []float32, ids []int32) { embeddingBackwardAll(dw, dy, ids, d, blocked(len(ids))) }),
			of(func(dw, dy []float32, ids []int32) { embeddingBackward(dw, dy, ids, d, blocked) })
	})
}
