package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
)

var shareLayouts = []string{"tp=2", "tp=4", "tp=8", "cp=2", "cp=4", "cp=8", "tp=2,cp=2", "tp=4,cp=2", "tp=2,cp=4"}

// In float64 every layout makes one rank's layer, but for rounding, with one sequence or several.
func TestDenseLayersOnRanks(t *testing.T) {
	for name := range denseLayers {
		t.Run(name, func(t *testing.T) {
			for _, batch := range []int{1, 2} {
				run := shareRun{layer: name, format: lowp.FP64, batch: batch}
				want := run.do(t)
				for _, layout := range shareLayouts {
					run.layout = layout
					worst, _ := apart(want, run.do(t))
					require.LessOrEqual(t, worst, 1e-12, "%s of batch %d", layout, batch)
				}
			}
		})
	}
}

// By canonical plans every layout has one rank's bits.
func TestDenseLayersHaveTheSameBitsOnAnyRanks(t *testing.T) {
	for name := range denseLayers {
		t.Run(name, func(t *testing.T) {
			for _, format := range []lowp.Format{lowp.FP32, lowp.BF16} {
				for _, batch := range []int{1, 2} {
					run := shareRun{layer: name, format: format, batch: batch, canonical: true}
					want := run.do(t)
					for _, layout := range shareLayouts {
						run.layout = layout
						if l, _ := parallel.ParseLayout(layout); batch > 1 && l.CP > 1 {
							continue // a token's place among the rank's is not its place among all
						}
						worst, bits := apart(want, run.do(t))
						require.False(t, bits, "%s in %s, batch %d: %g", layout, format, batch, worst)
					}
				}
			}
			// Negative control: by the fixed plans the bits depend on the ranks.
			for _, layout := range []string{"tp=4", "cp=4"} {
				run := shareRun{layer: name, format: lowp.FP32, batch: 1}
				want := run.do(t)
				run.layout = layout
				worst, bits := apart(want, run.do(t))
				require.True(t, bits, layout)
				require.Less(t, worst, 1e-4, layout)
			}
		})
	}
}

// What a rank has wrong about its place is seen.
func TestDenseLayersKnowTheirPlace(t *testing.T) {
	shifted := func(kernel, scalar string, by float64) device.Middleware {
		return func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				for i := range c.Scalars {
					if c.Kernel.Name == kernel && c.Scalars[i].Name == scalar && c.Scalars[i].Value > 0 {
						c.Scalars[i].Value += by
					}
				}
				next(c)
			}
		}
	}
	for _, c := range []struct{ layer, layout, kernel string }{
		{"attention", "cp=2", "attention"}, {"attention", "cp=2", "attention.bwd"},
		{"vocabulary", "tp=2", "local_ids"}, {"vocabulary", "tp=4", "cross_entropy.part"}, {"vocabulary", "tp=2", "cross_entropy.bwd"},
	} {
		run := shareRun{layer: c.layer, format: lowp.FP64, batch: 1}
		want := run.do(t)
		run.layout, run.broken = c.layout, shifted(c.kernel, "first", -1)
		worst, _ := apart(want, run.do(t))
		require.Greater(t, worst, 1e-3, "%+v", c)
	}
}

// By canonical plans each item is needed: without it some layout has other bits.
func TestCanonicalPlansOfDenseLayersAreNeeded(t *testing.T) {
	for _, c := range []struct{ layer, layout, kernel, plan string }{
		{"attention", "cp=4", "attention.bwd", "by=head"},
		{"attention", "cp=4", "attention.bwd", "segments:reverse/fp32"},
		{"attention", "tp=4", "matmul", "k:seq/fp32"},
		{"attention", "cp=4", "reduce_scatter", "ranks:ring/fp32"},
		{"mlp", "tp=4", "matmul", "k:seq/fp32"},
		{"mlp", "cp=4", "matmul.wgrad", "k:seq/fp32"},
		{"vocabulary", "tp=4", "cross_entropy", "vocab:seq/fp32"},
		{"vocabulary", "tp=4", "cross_entropy.part", "vocab:seq/fp32"},
		{"vocabulary", "cp=2", "sum", "tokens:seq/fp32"},
	} {
		run := shareRun{layer: c.layer, format: lowp.FP32, batch: 1, canonical: true, broken: replanned(c.kernel, c.plan)}
		want := run.do(t)
		run.layout = c.layout
		worst, bits := apart(want, run.do(t))
		require.True(t, bits, "%+v", c)
		require.Less(t, worst, 1e-4, "%+v", c)
	}
}

// A tensor of a step stands where it stood in the step before, on ranks too.
func TestDenseLayersOnRanksReuseTheirStorage(t *testing.T) {
	for name := range denseLayers {
		const ranks = 4
		var outs [ranks][2][]*device.Tensor // by step
		var probs [ranks][]int
		run := shareRun{layer: name, layout: "tp=2,cp=2", format: lowp.BF16, batch: 2, steps: 2}
		run.broken = func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				next(c)
				if c.Kernel.Name == "attention" {
					probs[c.ID.At.CP*2+c.ID.At.TP] = c.Output("probs").Shape()
				}
				at := &outs[c.ID.At.CP*2+c.ID.At.TP][c.ID.Step-1]
				for _, o := range c.Out {
					*at = append(*at, o.Tensor)
				}
			}
		}
		run.do(t)
		for r := range ranks {
			if name == "attention" {
				require.Equal(t, []int{2, 8, shareT / 2, shareT}, probs[r], "the rank's heads and queries")
			}
			require.NotEmpty(t, outs[r][0])
			require.Len(t, outs[r][1], len(outs[r][0]))
			for i, o := range outs[r][0] {
				require.True(t, o == outs[r][1][i], "%s: %s", name, o.From)
			}
		}
	}
}

// In bf16 by the fixed plans, hops round, yet the sums are those of one rank but for that.
func TestDenseLayersOnRanksInBF16(t *testing.T) {
	for name := range denseLayers {
		run := shareRun{layer: name, format: lowp.BF16, batch: 2}
		want := run.do(t)
		for _, layout := range shareLayouts {
			run.layout = layout
			worst, _ := apart(want, run.do(t))
			require.Less(t, worst, 0.04, "%s of %s", layout, name)
		}
	}
}

// Segments cut sequences of every length, also those that are no multiple of eight.
func TestAttentionBySegmentOfAnyLength(t *testing.T) {
	for _, steps := range []int{1, 5, 8, 12, 24} {
		grads := func(by string) [][]float64 {
			var p []*nn.Param
			for _, w := range denseLayers["attention"].weights {
				p = append(p, w.part(lowp.FP64, parallel.Rank{}))
			}
			a := &Attention{Wq: p[0], Wk: p[1], Wv: p[2], Wo: p[3], Shape: attentionShape{B: 2, T: steps, H: 16, KV: 8, P: 3}}
			dev := device.New(device.Options{}, replanned("attention.bwd", "by="+by))
			rows := make([]int, 2*steps)
			for i := range rows {
				rows[i] = i
			}
			dev.At(1, 0, device.Fwd)
			a.Forward(dev, drawnRows("x", lowp.FP64, len(rows), rows))
			dev.At(1, 0, device.Bwd)
			g := [][]float64{values(a.Backward(dev, drawnRows("dy", lowp.FP64, len(rows), rows)))}
			for _, p := range a.Params() {
				g = append(g, values(p.Grad))
			}
			require.NoError(t, dev.Err())
			return g
		}
		e, _ := worst(grads("segment"), grads("head"))
		require.LessOrEqual(t, e, 1e-12, "%d steps", steps)
	}
}
