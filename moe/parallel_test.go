package moe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
)

// layouts of the experts: whole ranks of experts, parts of them, beside parts of a batch, of a sequence and of its rows.
var (
	canonicalLayouts = []string{"dp=2,ep=2", "dp=4,ep=4", "tp=2,ep=2", "dp=2,tp=2,ep=4", "dp=4,ep=2", "cp=2", "cp=2,ep=2",
		"tp=4,ep=2", "tp=2,cp=2", "tp=2,cp=2,ep=2", "dp=2,tp=2,cp=2,ep=8", "dp=8,ep=4", "dp=2,tp=2,ep=2", "dp=2,tp=2",
		"dp=4,ep=2,etp=2", "dp=2,etp=2", "tp=2,etp=2", "tp=2,dp=2,ep=2,etp=2"}
	otherLayouts = []string{"dp=8,ep=8"}
)

// micros are the numbers of microbatches with which a layout can have the batch.
func micros(t *testing.T, layout string, canonical bool) (n []int) {
	l, err := parallel.ParseLayout(layout)
	require.NoError(t, err)
	for _, m := range []int{1, 2, 4, 8} {
		batch := sequences / l.DP / m
		if batch > 0 && (l.CP == 1 || batch == 1 || !canonical) {
			n = append(n, m)
		}
	}
	return n
}

func one(c Config, f lowp.Format, canonical bool) spread {
	return spread{Config: c, layout: "dp=1", format: f, micro: 1, canonical: canonical}
}

func near(t *testing.T, want, got outcome, within float64, at string) {
	t.Helper()
	require.InDeltaSlice(t, want.y, got.y, within, at)
	require.InDeltaSlice(t, want.dx, got.dx, within, at)
	require.Equal(t, want.tokens, got.tokens, at)
	require.Equal(t, slices.Sorted(maps.Keys(want.grads)), slices.Sorted(maps.Keys(got.grads)))
	for name, g := range want.grads {
		require.InDeltaSlice(t, g, got.grads[name], within, "%s: %s", at, name)
	}
}

// The layer on many ranks is the layer on one: in fp64, by the fixed plans.
func TestRanksComputeTheLayer(t *testing.T) {
	groups := func(c *Config) { c.Groups, c.GroupsKept = 4, 2 }
	changes := map[string]func(c *Config){
		"sigmoid": func(*Config) {}, "softmax": func(c *Config) { c.Router = "softmax" }, "groups": groups,
		"softmax of top-3, latent": func(c *Config) { c.Router, c.TopK, c.Latent = "softmax_topk", 3, 4 },
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		c := wide
		changes[name](&c)
		want := one(c, lowp.FP64, false).run(t)
		for _, layout := range slices.Concat(canonicalLayouts, otherLayouts) {
			for _, micro := range micros(t, layout, false) {
				s := spread{Config: c, layout: layout, format: lowp.FP64, micro: micro}
				near(t, want, s.run(t), 1e-11, fmt.Sprintf("%s, %s, %d microbatches", name, layout, micro))
			}
		}
	}
	s := one(wide, lowp.FP64, false)
	s.change = func(m *MoE) { m.Router.ZCoeff = 0.11 }
	require.Greater(t, math.Abs(s.run(t).dx[0]-one(wide, lowp.FP64, false).run(t).dx[0]), 1e-9, "negative control")
}

// Under the canonical plans every layout has one rank's bits.
func TestRanksHaveTheBitsOfOne(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16} {
		for _, router := range []string{"sigmoid", "softmax", "softmax_topk", "groups, latent, bf16 logits"} {
			c := wide
			c.Router, c.TopK = router, 3
			if router == "groups, latent, bf16 logits" {
				c.Router, c.Groups, c.GroupsKept, c.GroupTop, c.Latent, c.RouterDtype = "sigmoid", 4, 2, 1, 4, "bf16"
			}
			want := one(c, f, true).run(t).bits()
			for _, layout := range canonicalLayouts {
				for _, micro := range micros(t, layout, true) {
					got := spread{Config: c, layout: layout, format: f, micro: micro, canonical: true}.run(t).bits()
					for name, w := range want {
						require.Equal(t, w, got[name], "%s %s: %s, %d microbatches: %s", f, router, layout, micro, name)
					}
				}
			}
		}
	}
}

// What makes the bits one rank's: a control breaks each.
func TestWhatKeepsTheBits(t *testing.T) {
	want := one(wide, lowp.FP32, true).run(t).bits()
	broken := func(layout string, micro int, change func(m *MoE)) map[string][]uint64 {
		s := spread{Config: wide, layout: layout, format: lowp.FP32, micro: micro, canonical: true}
		require.Equal(t, want, s.run(t).bits(), "whole")
		s.change = change
		return s.run(t).bits()
	}
	together := func(m *MoE) { m.Experts.W1.Accumulator, m.Experts.W2.Accumulator = new(nn.InOrder), new(nn.InOrder) }
	for _, layout := range []string{"dp=4,ep=4", "dp=2,tp=2,ep=4"} { // one sum for all sources
		got := broken(layout, 2, together)
		require.Equal(t, want["y"], got["y"])
		require.Equal(t, want["dx"], got["dx"])
		require.Equal(t, want["router.w"], got["router.w"])
		require.NotEqual(t, want["w1"], got["w1"], layout)
		require.NotEqual(t, want["w2"], got["w2"], layout)
	}
	for _, layout := range []string{"tp=2,ep=2", "cp=2"} { // losses of a rank's own tokens
		got := broken(layout, 8, func(m *MoE) {
			together(m)
			m.Router.TP, m.Router.CP, m.Router.Sequence = parallel.Member{}, parallel.Member{}, seqLen/2
		})
		require.Equal(t, want["y"], got["y"])
		for _, name := range []string{"aux", "z", "dx", "router.w"} {
			require.NotEqual(t, want[name], got[name], "%s: %s", layout, name)
		}
	}
}

// The order in which ranks' rows lie decides the bits of weight gradients, by the fixed plans, and nothing else.
func TestSourcesAreAddedInOrder(t *testing.T) {
	s := spread{Config: wide, layout: "dp=4,ep=4", format: lowp.FP32, micro: 1}
	want := s.run(t).bits()
	require.Equal(t, want, s.run(t).bits())
	s.middleware = []device.Middleware{func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			next(c)
			if c.Label != "dispatch.sort" {
				return
			}
			order, inverse, offsets := c.Output("order").I32(), c.Output("inverse").I32(), c.Output("offsets").I32()
			for e := range len(offsets) - 1 {
				slices.Reverse(order[offsets[e]:offsets[e+1]])
			}
			for sorted, received := range order {
				inverse[received] = int32(sorted)
			}
		}
	}}
	got := s.run(t).bits()
	for name, w := range want {
		if name == "w1" || name == "w2" {
			require.NotEqual(t, w, got[name], name)
			continue
		}
		require.Equal(t, w, got[name], name)
	}
}

// Experts that nobody chose, and ranks to which no row comes.
func TestRanksWithoutRows(t *testing.T) {
	for _, layout := range []string{"dp=4,ep=4", "dp=8,ep=8", "tp=2,ep=2", "dp=2,tp=2,ep=4", "dp=4,ep=2,etp=2", "dp=8,ep=4,etp=2"} {
		for _, f := range []lowp.Format{lowp.FP64, lowp.FP32} {
			canonical := f == lowp.FP32
			s := one(wide, f, canonical)
			s.bias = 100
			want := s.run(t)
			s.layout = layout
			got := s.run(t)
			require.Contains(t, got.sent, 0, layout)
			near(t, want, got, map[lowp.Format]float64{lowp.FP64: 1e-11, lowp.FP32: 1e-2}[f], layout)
			if canonical {
				require.Equal(t, want.bits(), got.bits(), layout)
			}
		}
	}
}

// The losses are the microbatch's, alike on every rank that shares it.
func TestLossesAreAlike(t *testing.T) {
	for _, layout := range []string{"tp=4", "cp=2,tp=2,dp=2", "dp=2,tp=2,ep=4"} {
		l, err := parallel.ParseLayout(layout)
		require.NoError(t, err)
		for _, aux := range []string{"sequence", "batch"} {
			c := wide
			c.Aux = aux
			got := spread{Config: c, layout: layout, format: lowp.FP32, micro: 2}.run(t)
			for rank, losses := range got.perRank {
				require.Equal(t, got.perRank[rank/(l.TP*l.CP)*l.TP*l.CP], losses, layout)
			}
			require.NotEqual(t, got.perRank[0][0], got.perRank[0][2], "negative control: another microbatch")
			s := spread{Config: c, layout: fmt.Sprintf("dp=%d", l.DP), format: lowp.FP32, micro: 2}
			require.Equal(t, s.run(t).aux, got.aux, "%s: to the bit, by any plan", layout)
			require.Equal(t, s.run(t).z, got.z)
		}
	}
}

// What ranks have of a sum over an expert's hidden width is rounded once, where it meets the others.
func TestPartsOfAnExpertMeetWide(t *testing.T) {
	formats := map[string][]lowp.Format{"experts.w2": {lowp.FP32, lowp.BF16}, "combine.scatter": {lowp.BF16, lowp.BF16},
		"experts.w1.dx": {lowp.FP32, lowp.BF16}, "dispatch.gather.dx": {lowp.BF16, lowp.BF16}, "prob.gather.dx": {lowp.FP32, lowp.FP32}}
	for i, layout := range []string{"dp=4,ep=2,etp=2", "dp=4,ep=4"} {
		var seen sync.Map
		spread{Config: wide, layout: layout, format: lowp.BF16, micro: 1, middleware: []device.Middleware{func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				if f := formats[c.ID.Path]; f != nil {
					seen.Store(c.ID.Path, true)
					if c.Out[0].Format != f[i] {
						panic(c.ID.Path)
					}
				}
				next(c)
			}
		}}}.run(t)
		for path := range formats {
			_, ok := seen.Load(path)
			require.Equal(t, ok, i == 0 || strings.HasPrefix(path, "experts"), path)
		}
	}
}
