package ssm

import (
	"fmt"
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

// ssdCase is a scan with its data.
type ssdCase[T libm.Float] struct {
	ssdShape
	x, b, c, dt, la, d []T
	begin              []T // nil: none
	y, last            []T
}

func newSSDCase(s ssdShape) *ssdCase[float64] {
	r := rand.New(rand.NewPCG(5, 5))
	rows := s.B * s.T
	k := &ssdCase[float64]{ssdShape: s, x: check.Normal(r, rows*s.H*s.P), b: check.Normal(r, rows*s.G*s.N), c: check.Normal(r, rows*s.G*s.N),
		dt: check.Normal(r, rows*s.H), la: check.Normal(r, rows*s.H), d: check.Normal(r, s.H), y: make([]float64, rows*s.H*s.P)}
	for i := range k.dt {
		k.dt[i], k.la[i] = 0.1+math.Abs(k.dt[i]), -math.Abs(k.la[i])
	}
	k.last = make([]float64, s.B*s.H*s.P*s.N)
	return k
}

func (k *ssdCase[T]) run(f ssdFolds) {
	ssd(k.y, k.last, k.x, k.b, k.c, k.dt, k.la, k.d, k.begin, k.ssdShape, f)
}

func allFolds(s ssdShape, order string) ssdFolds {
	return ssdFolds{N: foldOf(order, s.N), P: foldOf(order, s.P), State: foldOf(order, s.P*s.N), Heads: foldOf(order, s.H/s.G),
		Steps: func(n int) kernel.Fold { return foldOf(order, n) }}
}

// The chunked scan is the recurrence, for every chunk size, whatever the order of its sums.
func TestChunkedScanIsTheRecurrence(t *testing.T) {
	s := ssdShape{B: 2, T: 13, H: 4, P: 3, G: 2, N: 5}
	for s.Chunk = 1; s.Chunk <= s.T+1; s.Chunk++ {
		s.documents = documents{}
		if s.Chunk%3 > 0 {
			s.documents = documents{check.Starts(15, []int{4, 6, 7, 11}, []int{1, 2, 14}), 2, 15}
		}
		k := newSSDCase(s)
		if s.Chunk%2 == 0 {
			k.begin = check.Normal(rand.New(rand.NewPCG(6, 6)), len(k.last))
		}
		want, last := make([]float64, len(k.y)), make([]float64, s.B*s.H*s.P*s.N)
		ssdNaive(want, last, k.x, k.b, k.c, k.dt, k.la, k.d, k.begin, s)
		for _, order := range []string{"seq", "reverse", "pairwise", "splitk(3)"} {
			k.run(allFolds(s, order))
			for i := range want {
				require.InDelta(t, want[i], k.y[i], 1e-10, "chunk %d by %s, y[%d]", s.Chunk, order, i)
			}
			for i, v := range k.last {
				require.InDelta(t, last[i], v, 1e-10, "chunk %d by %s, state", s.Chunk, order)
			}
		}
		k.la[3*s.H] *= 1.001 // negative control; the first step of a document has nothing to decay
		k.run(allFolds(s, "seq"))
		worst := 0.0
		for i := range want {
			worst = max(worst, math.Abs(want[i]-k.y[i]))
		}
		require.Greater(t, worst, 1e-10, "another decay must be seen")
	}
}

// stateTree is the order in which a state sums its steps: chunk after chunk, each by its own order.
func stateTree(t, chunk int, order reduce.Order) reduce.Tree {
	var chunks []int
	var parts []reduce.Tree
	for from := 0; from < t; from += chunk {
		n := min(chunk, t-from)
		leaves := make([]reduce.Tree, n)
		for i := range leaves {
			leaves[i] = reduce.Tree{Leaf: from + i}
		}
		chunks, parts = append(chunks, len(chunks)), append(parts, reduce.Graft(order.Tree(n), leaves))
	}
	return reduce.Graft(reduce.Chain(chunks), parts)
}

// The revealed order of the state's sum is what the plan says: an order inside chunks, and a chain of them.
func TestStateSumByItsPlan(t *testing.T) {
	for _, order := range []string{"seq", "reverse", "pairwise", "lanes(4)", "splitk(3)", "perm(7)"} {
		for _, chunk := range []int{1, 4, 5, 16, 19} {
			s := ssdShape{B: 1, T: 19, H: 1, P: 1, G: 1, N: 1, Chunk: chunk}
			f := allFolds(s, order)
			f.N, f.P, f.State, f.Heads = inOrder(1), inOrder(1), inOrder(1), inOrder(1)
			want := stateTree(s.T, chunk, reduce.MustOrder(order))
			last := func(x []float32) float32 {
				y, state, one, zero := make([]float32, s.T), make([]float32, 1), check.Ones(s.T), make([]float32, s.T)
				ssd(y, state, x, one, one, one, zero, []float32{0}, nil, s, f)
				return state[0]
			}
			check.Order(t, fmt.Sprintf("state by %s in chunks of %d", order, chunk), s.T, want, lowp.FP32, last)
		}
	}
	require.False(t, stateTree(19, 4, reduce.Seq).Equal(stateTree(19, 5, reduce.Seq)), "chunk size is a tree")
}

// The gradients, of whole sequences and of parts of them, whose last state counts and that begin with one.
func TestSSDGradients(t *testing.T) {
	for _, chunk := range []int{1, 3, 4, 7, 8} {
		for _, part := range []bool{false, true} {
			checkSSDGradients(t, chunk, part, documents{})
			checkSSDGradients(t, chunk, part, documents{check.Starts(9, []int{1, 3, 4, 6}, []int{5}), 2, 9})
		}
	}
}

func checkSSDGradients(t *testing.T, chunk int, part bool, d documents) {
	t.Helper()
	s := ssdShape{B: 2, T: 7, H: 4, P: 3, G: 2, N: 2, Chunk: chunk, documents: d}
	k := newSSDCase(s)
	f := allFolds(s, "pairwise")
	forward := func() []float64 { k.run(f); return k.y }
	if part {
		k.begin = check.Normal(rand.New(rand.NewPCG(6, 6)), len(k.last))
		forward = func() []float64 { k.run(f); return append(append([]float64(nil), k.y...), k.last...) }
	}
	gradOf := func(pick func(ssdGradients[float64]) []float64) func(dy []float64) []float64 {
		return func(dy []float64) []float64 {
			g := ssdGradients[float64]{X: make([]float64, len(k.x)), B: make([]float64, len(k.b)), C: make([]float64, len(k.c)),
				DT: make([]float64, len(k.dt)), LA: make([]float64, len(k.la)), Begin: make([]float64, len(k.begin))}
			var dlast []float64
			if part {
				dlast = dy[len(k.y):]
			}
			ssdBackward(g, dy[:len(k.y)], dlast, k.x, k.b, k.c, k.dt, k.la, k.d, k.begin, s, f)
			return pick(g)
		}
	}
	check.Gradient(t, "dx", k.x, forward, gradOf(func(g ssdGradients[float64]) []float64 { return g.X }))
	check.Gradient(t, "db", k.b, forward, gradOf(func(g ssdGradients[float64]) []float64 { return g.B }))
	check.Gradient(t, "dc", k.c, forward, gradOf(func(g ssdGradients[float64]) []float64 { return g.C }))
	check.Gradient(t, "ddt", k.dt, forward, gradOf(func(g ssdGradients[float64]) []float64 { return g.DT }))
	check.Gradient(t, "dla", k.la, forward, gradOf(func(g ssdGradients[float64]) []float64 { return g.LA }))
	if part {
		check.Gradient(t, "dbegin", k.begin, forward, gradOf(func(g ssdGradients[float64]) []float64 { return g.Begin }))
	}
	check.Gradient(t, "dd", k.d, forward, func(dy []float64) []float64 {
		dd := make([]float64, s.H)
		skipBackward(dd, dy[:len(k.y)], k.x, inOrder(s.P), inOrder(s.B*s.T))
		return dd
	})
}

// ssdNaive is the recurrence that ssd computes, step by step: its definition. S is 0 where a document begins.
//
//	S_t = exp(la_t)·S_{t−1} + dt_t·x_t⊗b_t ;  y_t = S_t·c_t + d·x_t
//
// Shapes:  x (B·T,H·P), b, c (B·T,G·N), dt, la (B·T,H), d (H), begin (B,H,P,N) or nil → y (B·T,H·P), last (B,H,P,N).
// Reduces: N, in order.
// Source:  Dao & Gu 2024, "Transformers are SSMs"; docs/facts.md, Model.
func ssdNaive[T libm.Float](y, last, x, b, c, dt, la, d, begin []T, s ssdShape) {
	clear(last)
	copy(last, begin)
	for seq := range s.B {
		for h := range s.H {
			state := last[(seq*s.H+h)*s.P*s.N:][:s.P*s.N]
			for t := range s.T {
				row := seq*s.T + t
				group := (row*s.G + h/(s.H/s.G)) * s.N
				if s.begin(seq, t) == t {
					clear(state)
				}
				bt, ct := b[group:][:s.N], c[group:][:s.N]
				decay, step := libm.ExpOf(la[row*s.H+h]), dt[row*s.H+h]
				for p := range s.P {
					at := (row*s.H+h)*s.P + p
					sum, sp := kernel.Negzero[T](), state[p*s.N:][:s.N]
					for n := range sp {
						sp[n] = T(decay*sp[n]) + T(T(step*x[at])*bt[n])
						sum += T(sp[n] * ct[n])
					}
					y[at] = sum + T(d[h]*x[at])
				}
			}
		}
	}
}
