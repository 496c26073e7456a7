package moe

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// The layer by its formula, one token and one expert at a time (FACTS §5, §6).
func TestLayerIsItsDefinition(t *testing.T) {
	for _, router := range []string{"sigmoid", "softmax"} {
		for _, k := range []int{1, 2, 3} {
			c := small
			c.Router, c.TopK = router, k
			b := newBench(c, lowp.FP64)
			b.step++
			b.dev.At(b.step, 0, device.Fwd)
			y := b.Forward(b.dev, b.x)
			want := naiveLayer(b, c)
			for i := range want.y {
				require.InDelta(t, want.y[i], y.Value(i), 1e-12, "%s top-%d", router, k)
			}
			require.InDelta(t, want.aux, b.Aux.Value(0), 1e-14)
			require.InDelta(t, want.z, b.Z.Value(0), 1e-14)
			require.Greater(t, want.biased, 0, "the bias must have changed a choice, or it is not tested")

			other := c // negative control: the constants matter
			other.Scaling, other.AuxCoeff, other.ZCoeff = 2.6, 0.71, 0.11
			wrong := naiveLayer(b, other)
			require.Greater(t, math.Abs(wrong.y[0]-y.Value(0)), 1e-3)
			require.Greater(t, math.Abs(wrong.aux-b.Aux.Value(0)), 1e-4)
			require.Greater(t, math.Abs(wrong.z-b.Z.Value(0)), 1e-4)
		}
	}
}

type naiveResult struct {
	y      []float64
	aux, z float64
	biased int // tokens whose choice the bias changed
}

func naiveLayer(b *bench, c Config) naiveResult {
	out := naiveResult{y: make([]float64, tokens*width)}
	share, counts := make([]float64, c.Experts), make([]float64, c.Experts)
	for t := range tokens {
		x := b.x.F64()[t*width:][:width]
		s, shares, lse := naiveScores(x, b.Router.W.W.F64(), c)
		biased := slices.Clone(s)
		for e := range biased {
			biased[e] += b.Router.Bias.Value(e)
		}
		chosen, plain := best(biased, c.TopK), best(s, c.TopK)
		sum := 1e-20
		for _, e := range chosen {
			sum += s[e]
		}
		for _, e := range chosen {
			p := c.Scaling * s[e]
			if c.Router == "sigmoid" && c.TopK > 1 {
				p /= sum
			}
			for i, v := range naiveExpert(x, b.Experts.W1.W.F64(), b.Experts.W2.W.F64(), e, c.Hidden) {
				out.y[t*width+i] += p * v
			}
		}
		for e := range share {
			share[e] += shares[e]
		}
		for _, e := range plain { // n is of the unbiased choice
			counts[e]++
		}
		if !slices.Equal(chosen, plain) {
			out.biased++
		}
		out.z += lse * lse * c.ZCoeff / tokens
	}
	for e := range share {
		out.aux += share[e] * counts[e] * float64(c.Experts) * c.AuxCoeff / (float64(c.TopK) * tokens * tokens)
	}
	return out
}

func naiveScores(x, w []float64, c Config) (s, shares []float64, lse float64) {
	sum := 0.0
	for e := range c.Experts {
		logit := 0.0
		for i, v := range x {
			logit += v * w[e*width+i]
		}
		sum += math.Exp(logit)
		s = append(s, logit)
	}
	lse = math.Log(sum)
	total := 1e-20
	for e, l := range s {
		s[e] = 1 / (1 + math.Exp(-l))
		if c.Router == "softmax" {
			s[e] = math.Exp(l - lse)
		}
		total += s[e]
	}
	for _, v := range s {
		if c.Router == "softmax" {
			total = 1
		}
		shares = append(shares, v/total)
	}
	return s, shares, lse
}

func best(s []float64, k int) (chosen []int) {
	for range k {
		at := -1
		for e := range s {
			if !slices.Contains(chosen, e) && (at < 0 || s[e] > s[at]) {
				at = e
			}
		}
		chosen = append(chosen, at)
	}
	return chosen
}

func naiveExpert(x, w1, w2 []float64, e, hidden int) []float64 {
	y := make([]float64, width)
	for f := range hidden {
		h := 0.0
		for i, v := range x {
			h += v * w1[(e*width+i)*hidden+f]
		}
		h = max(h, 0)
		for i := range y {
			y[i] += h * h * w2[(e*hidden+f)*width+i]
		}
	}
	return y
}
