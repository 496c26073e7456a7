package model

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/kernel/check"
)

func TestAttentionGradients(t *testing.T) {
	checkAttentionGradients(t, nil)
	checkAttentionGradients(t, check.Starts(5, []int{2}, []int{1, 4}))
}

func checkAttentionGradients(t *testing.T, starts []int32) {
	t.Helper()
	r := rand.New(rand.NewPCG(4, 4))
	s := attentionShape{B: 2, T: 5, H: 4, KV: 2, P: 3, Starts: starts}
	nq, nk := s.B*s.T*s.H*s.P, s.B*s.T*s.KV*s.P
	q, k, v := check.Normal(r, nq), check.Normal(r, nk), check.Normal(r, nk)
	o, probs := make([]float64, nq), make([]float64, s.B*s.H*s.T*s.T)
	folds := attentionFolds{P: inOrder(s.P), Keys: inOrder(s.T), DQ: foldOf("splitk(2)", s.T), Queries: inOrder(s.H / s.KV * s.T)}
	f := func() []float64 { attend(o, probs, q, k, v, s, 0.5, folds); return o }
	for i, x := range [][]float64{q, k, v} {
		check.Gradient(t, []string{"dq", "dk", "dv"}[i], x, f, func(do []float64) []float64 {
			d := [3][]float64{make([]float64, nq), make([]float64, nk), make([]float64, nk)}
			attendBackward(d[0], d[1], d[2], do, q, k, v, probs, s, 0.5, folds)
			return d[i]
		})
	}
	// Causal: what comes later changes nothing before it.
	before := append([]float64(nil), f()...)
	k[(s.T-1)*s.KV*s.P] += 1
	after := f()
	require.Equal(t, before[:(s.T-1)*s.H*s.P], after[:(s.T-1)*s.H*s.P])
	require.NotEqual(t, before[(s.T-1)*s.H*s.P:s.T*s.H*s.P], after[(s.T-1)*s.H*s.P:s.T*s.H*s.P])
}

func TestEmbeddingAndLossGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	ids := []int32{3, 0, 3, 1, 3}
	w, y := check.Normal(r, 5*4), make([]float64, len(ids)*4)
	check.Gradient(t, "embedding", w, func() []float64 { lookup(y, w, ids, 4); return y }, func(dy []float64) []float64 {
		dw := make([]float64, len(w))
		embeddingBackward(dw, dy, ids, 4, inOrder)
		return dw
	})
	v := 6
	logits, targets := check.Normal(r, 5*v), []int32{0, 5, -1, 2, 2}
	loss, lse := make([]float64, 5), make([]float64, 5)
	total := func() []float64 {
		crossEntropy(loss, lse, logits, targets, v, inOrder(v))
		return []float64{kernel.Sum(inOrder(5), loss, 1)}
	}
	check.Gradient(t, "cross-entropy", logits, total, func(dy []float64) []float64 {
		d := make([]float64, len(logits))
		crossEntropyBackward(d, logits, lse, targets, v, 0, dy[0])
		return d
	})
	require.Zero(t, loss[2], "an ignored target has no loss")
}
