package moe

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// The layer by its formula, one token and one expert at a time (docs/facts.md, Model and Kernels).
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
	y       []float64
	aux, z  float64
	biased  int // tokens whose choice the bias changed
	grouped int // tokens whose choice the groups changed
}

func naiveLayer(b *bench, c Config) naiveResult {
	rows := b.x.Rows()
	out, sequence := naiveResult{y: make([]float64, rows*width)}, rows
	if c.Aux == "sequence" {
		sequence = b.Router.Sequence
	}
	share, counts := make([]float64, c.Experts), make([]float64, c.Experts)
	for t := range rows {
		x := b.x.F64()[t*width:][:width]
		s := naiveScores(x, b.Router.W.W.F64(), c)
		by := s.scores
		if c.Router == "softmax_topk" {
			by = s.logits
		}
		biased := slices.Clone(by)
		for e := range biased {
			biased[e] += b.Router.Bias.Value(e)
		}
		kept := naiveGroups(biased, c)
		chosen, plain := best(biased, c.TopK, kept), best(s.scores, c.TopK, nil)
		for i, v := range naiveRouted(b, c, x, chosen, naiveProb(s, chosen, c)) {
			out.y[t*width+i] = v
		}
		for _, e := range plain { // n is of the unbiased choice among all experts
			counts[e]++
		}
		for e := range share {
			share[e] += s.shares[e]
		}
		if !slices.Equal(chosen, best(by, c.TopK, kept)) {
			out.biased++
		}
		if !slices.Equal(chosen, best(biased, c.TopK, nil)) {
			out.grouped++
		}
		out.z += s.lse * s.lse * c.ZCoeff / float64(rows)
		if (t+1)%sequence == 0 {
			n := float64(sequence)
			for e := range share {
				out.aux += share[e] * counts[e] * float64(c.Experts) * c.AuxCoeff / (float64(c.TopK) * n * n) / (float64(rows) / n)
			}
			clear(share)
			clear(counts)
		}
	}
	return out
}

// naiveRouted is what the chosen experts make of a token, through the latent where there is one.
func naiveRouted(b *bench, c Config, x []float64, chosen []int, p []float64) []float64 {
	in := x
	if c.Latent > 0 {
		in = naiveRow(x, b.Latent.Down.W.F64(), c.Latent)
	}
	y := make([]float64, len(in))
	for slot, e := range chosen {
		for i, v := range naiveExpert(in, b.Experts.W1.W.F64(), b.Experts.W2.W.F64(), e, c.Hidden) {
			y[i] += p[slot] * v
		}
	}
	if c.Latent > 0 {
		y = naiveRow(y, b.Latent.Up.W.F64(), width)
	}
	return y
}

func naiveRow(x, w []float64, n int) []float64 {
	y := make([]float64, n)
	for i, v := range x {
		for j := range y {
			y[j] += v * w[i*n+j]
		}
	}
	return y
}

// naiveProb are the probabilities of the chosen experts.
func naiveProb(s naiveScore, chosen []int, c Config) (p []float64) {
	sum := 1e-20
	for _, e := range chosen {
		switch {
		case c.Router == "softmax_topk":
			p = append(p, math.Exp(s.logits[e]))
		default:
			p = append(p, s.scores[e])
		}
		sum += p[len(p)-1]
	}
	if c.Router == "softmax" || c.Router == "sigmoid" && c.TopK == 1 {
		sum = 1
	}
	for i := range p {
		p[i] *= c.Scaling / sum
	}
	return p
}

// naiveGroups are the experts of the groups a token keeps; nil: all.
func naiveGroups(s []float64, c Config) (experts []int) {
	if c.Groups < 2 {
		return nil
	}
	size, n := c.Experts/c.Groups, c.GroupTop
	if n == 0 {
		n = c.TopK / c.GroupsKept
	}
	sums := make([]float64, c.Groups)
	for g := range sums {
		group := slices.Clone(s[g*size:][:size])
		slices.Sort(group)
		for _, v := range group[size-n:] {
			sums[g] += v
		}
	}
	for _, g := range best(sums, c.GroupsKept, nil) {
		for e := g * size; e < (g+1)*size; e++ {
			experts = append(experts, e)
		}
	}
	return experts
}

type naiveScore struct {
	logits, scores, shares []float64
	lse                    float64
}

func naiveScores(x, w []float64, c Config) (s naiveScore) {
	sum, total := 0.0, 1e-20
	for e := range c.Experts {
		logit := 0.0
		for i, v := range x {
			logit += v * w[e*width+i]
		}
		sum += math.Exp(logit)
		s.logits = append(s.logits, logit)
	}
	s.lse = math.Log(sum)
	for _, l := range s.logits {
		v := 1 / (1 + math.Exp(-l))
		if c.Router != "sigmoid" {
			v = math.Exp(l - s.lse)
		}
		s.scores = append(s.scores, v)
		total += v
	}
	for _, v := range s.scores {
		s.shares = append(s.shares, v/total)
	}
	return s
}

// best are the k largest of s among some indices, or all.
func best(s []float64, k int, among []int) (chosen []int) {
	for range k {
		at := -1
		for e := range s {
			if (among == nil || slices.Contains(among, e)) && !slices.Contains(chosen, e) && (at < 0 || s[e] > s[at]) {
				at = e
			}
		}
		chosen = append(chosen, at)
	}
	return chosen
}

func naiveExpert(x, w1, w2 []float64, e, hidden int) []float64 {
	y := make([]float64, len(x))
	for f := range hidden {
		h := 0.0
		for i, v := range x {
			h += v * w1[(e*len(x)+i)*hidden+f]
		}
		h = max(h, 0)
		for i := range y {
			y[i] += h * h * w2[(e*hidden+f)*len(x)+i]
		}
	}
	return y
}
