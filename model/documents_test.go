package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
)

// What a document holds, infinities and NaN too, reaches no other, forward or backward, by head and by segment.
func TestDocumentsAreAbsentFromEachOther(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	const second, end = 5, 9 // the second of three documents is poisoned
	s := attentionShape{B: 1, T: 16, H: 2, KV: 1, P: 3, Starts: check.Starts(16, []int{second, end})}
	nq, nk := s.T*s.H*s.P, s.T*s.P
	for _, order := range check.Orders {
		for _, segments := range []int{1, 8} {
			f := attentionFolds{P: inOrder(s.P), Keys: foldOf(order, s.T), DQ: foldOf(order, s.T), Queries: foldOf(order, s.H*s.T/segments)}
			if segments > 1 {
				f.Segments = foldOf("pairwise", segments)
			}
			for _, poison := range []float32{float32(math.Inf(1)), float32(math.NaN())} {
				q, k, v, do := check.Random(r, nq), check.Random(r, nk), check.Random(r, nk), check.Random(r, nq)
				clean := attended(s, f, q, k, v, do)
				for _, x := range [][]float32{q, k, v, do} {
					for at := second; at < end; at++ {
						x[at*len(x)/s.T] = poison
					}
				}
				dirty := attended(s, f, q, k, v, do)
				for i, name := range []string{"o", "dq", "dk", "dv"} {
					w := len(clean[i]) / s.T
					check.SameBits(t, clean[i][:second*w], dirty[i][:second*w], "%s before, by %s", name, order)
					check.SameBits(t, clean[i][end*w:], dirty[i][end*w:], "%s after, by %s", name, order)
					require.NotEqual(t, clean[i][second*w:end*w], dirty[i][second*w:end*w], name)
				}
			}
		}
	}
}

// In order, a document's attention, forward and backward, is that of a sequence by itself.
func TestAttentionOfDocumentsIsOfEachAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 27))
	const cut = 5
	s := attentionShape{B: 1, T: 12, H: 2, KV: 2, P: 4, Starts: check.Starts(12, []int{cut})}
	n, row := s.T*s.H*s.P, s.H*s.P
	folds := func(t int) attentionFolds {
		return attentionFolds{P: inOrder(s.P), Keys: inOrder(t), DQ: inOrder(t), Queries: inOrder(t)}
	}
	q, k, v, do := check.Random(r, n), check.Random(r, n), check.Random(r, n), check.Random(r, n)
	whole := attended(s, folds(s.T), q, k, v, do)
	for _, part := range [][2]int{{0, cut}, {cut, s.T}} {
		lo, hi := part[0]*row, part[1]*row
		alone := attentionShape{B: 1, T: part[1] - part[0], H: s.H, KV: s.KV, P: s.P}
		one := attended(alone, folds(alone.T), q[lo:hi], k[lo:hi], v[lo:hi], do[lo:hi])
		for i, name := range []string{"o", "dq", "dk", "dv"} {
			check.SameBits(t, one[i], whole[i][lo:hi], "%s", name)
		}
	}
	s.Starts = nil
	require.NotEqual(t, whole[0][cut*row:], attended(s, folds(s.T), q, k, v, do)[0][cut*row:], "negative control: one document")
}
