package ssm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
)

// What a document holds, infinities and NaN too, reaches no other, forward or backward, wherever chunks end.
func TestDocumentsDoNotMeet(t *testing.T) {
	const of, second, end = 9, 3, 6 // the second of three documents is poisoned
	for _, order := range []string{"seq", "reverse", "pairwise", "splitk(3)", "perm(7)"} {
		for chunk := 1; chunk <= of; chunk++ {
			s := ssdShape{B: 1, T: of, H: 2, P: 3, G: 1, N: 2, Chunk: chunk, documents: documents{check.Starts(of, []int{second, end}), 0, of}}
			f := allFolds(s, order)
			r := rand.New(rand.NewPCG(1, 2))
			x, b, c, dy := check.Random(r, of*6), check.Random(r, of*2), check.Random(r, of*2), check.Random(r, of*6)
			dt, la, d := check.Ones(of*2), check.Random(r, of*2), check.Ones(2)
			for i := range la {
				la[i] = -float32(math.Abs(float64(la[i])))
			}
			clean := scanAll(s, f, x, b, c, dt, la, d, dy)
			for i := second; i < end; i++ {
				nan := float32(math.NaN())
				x[i*6], b[i*2], c[i*2], dt[i*2], la[i*2], dy[i*6] = nan, nan, nan, nan, nan, nan
			}
			dirty := scanAll(s, f, x, b, c, dt, la, d, dy)
			for name, y := range dirty {
				width := len(y) / of
				check.SameBits(t, clean[name][:second*width], y[:second*width], "%s before, by %s in chunks of %d", name, order, chunk)
				check.SameBits(t, clean[name][end*width:], y[end*width:], "%s after, by %s in chunks of %d", name, order, chunk)
				require.NotEqual(t, clean[name][second*width], y[second*width], name)
			}
		}
	}
	// Negative control: without the boundary what follows hears of it.
	s := ssdShape{B: 1, T: of, H: 2, P: 3, G: 1, N: 2, Chunk: 4}
	f := allFolds(s, "seq")
	x, ones := check.Ones(of*6), check.Ones(of*2)
	clean := scanAll(s, f, x, ones, ones, ones, ones, ones[:2], x)
	ones[second*2] = 2
	require.NotEqual(t, clean["y"][end*6:], scanAll(s, f, x, ones, ones, ones, ones, check.Ones(2), x)["y"][end*6:])
}

// scanAll is what the scan and its backward give, by name.
func scanAll(s ssdShape, f ssdFolds, x, b, c, dt, la, d, dy []float32) map[string][]float32 {
	y, last := make([]float32, len(x)), make([]float32, s.B*s.H*s.P*s.N)
	ssd(y, last, x, b, c, dt, la, d, nil, s, f)
	g := ssdGradients[float32]{X: make([]float32, len(x)), B: make([]float32, len(b)), C: make([]float32, len(c)), DT: make([]float32, len(dt)), LA: make([]float32, len(la))}
	ssdBackward(g, dy, nil, x, b, c, dt, la, d, nil, s, f)
	return map[string][]float32{"y": y, "dx": g.X, "db": g.B, "dc": g.C, "ddt": g.DT, "dla": g.LA}
}

// A document's taps, forward and backward, are those of a sequence by itself.
func TestConvolutionOfDocumentsIsOfEachAlone(t *testing.T) {
	const n, cut, channels = 7, 4, 3
	r := rand.New(rand.NewPCG(3, 4))
	s := convShape{B: 1, T: n, C: channels, K: 4, documents: documents{check.Starts(n, []int{cut}), 0, n}}
	x, w, bias, dy := check.Random(r, n*channels), check.Random(r, channels*4), check.Random(r, channels), check.Random(r, n*channels)
	y, dx := make([]float32, len(x)), make([]float32, len(x))
	causalConv(y, x, nil, w, bias, s, inOrder(4))
	causalConvBackward(dx, dy, nil, w, s, inOrder(4))
	for _, part := range [][2]int{{0, cut}, {cut, n}} {
		at, alone := part[0]*channels, convShape{B: 1, T: part[1] - part[0], C: channels, K: 4}
		one, back := make([]float32, alone.T*channels), make([]float32, alone.T*channels)
		causalConv(one, x[at:], nil, w, bias, alone, inOrder(4))
		causalConvBackward(back, dy[at:], nil, w, alone, inOrder(4))
		check.SameBits(t, one, y[at:][:len(one)], "y")
		check.SameBits(t, back, dx[at:][:len(back)], "dx")
	}
}
