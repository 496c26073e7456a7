package model

import (
	"math/rand/v2"
	"testing"

	"firstbit/kernel/check"
)

func BenchmarkCrossEntropy(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	x, targets := check.Random(r, 64*512), make([]int32, 64)
	loss, lse, f := make([]float32, 64), make([]float32, 64), inOrder(512)
	check.Bytes(b, len(x), func() { crossEntropy(loss, lse, x, targets, 512, f) })
}

func BenchmarkAttention(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	s := attentionShape{B: 1, T: 64, H: 4, KV: 2, P: 32}
	q, k, v := check.Random(r, 64*128), check.Random(r, 64*64), check.Random(r, 64*64)
	o, probs := make([]float32, 64*128), make([]float32, 4*64*64)
	dq, dk, dv := make([]float32, 64*128), make([]float32, 64*64), make([]float32, 64*64)
	folds := attentionFolds{P: inOrder(32), Keys: inOrder(64), DQ: foldOf("splitk(4)", 64), Queries: inOrder(128)}
	b.Run("forward", func(b *testing.B) {
		check.Bytes(b, len(q), func() { attend(o, probs, q, k, v, s, 0.2, folds) })
	})
	b.Run("backward", func(b *testing.B) {
		check.Bytes(b, len(q), func() { attendBackward(dq, dk, dv, o, q, k, v, probs, s, 0.2, folds) })
	})
}

func BenchmarkEmbeddingBackward(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	dy, ids, dw := check.Random(r, 512*64), make([]int32, 512), make([]float32, 256*64)
	for i := range ids {
		ids[i] = int32(r.IntN(256))
	}
	check.Bytes(b, len(dy), func() { embeddingBackward(dw, dy, ids, 64, inOrder) })
}
