package moe

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
)

// dprobRun is what one backward of the experts' second product read, drew and wrote.
type dprobRun struct {
	acc, h, dprob []float32
	offsets       []int32
	arrivals      map[string][]int
	partials      []device.Partial
}

// runDProb runs a step whose epilogue follows a plan, under a schedule.
func runDProb(t *testing.T, plan string, seed uint64) dprobRun {
	var out dprobRun
	c := small
	c.Hidden, c.TileN, c.TileSub = 21, 8, 2 // three tiles of four, four and three sub-tiles
	b := newBench(c, lowp.FP32)
	b.dev = device.New(device.Options{Schedule: device.Schedule{Seed: seed}}, func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Label != "w2.dx" {
				next(c)
				return
			}
			var err error
			c.Plan, err = c.Plan.With(reduce.MustPlan(plan))
			require.NoError(t, err)
			c.Probe = func(p device.Partial) {
				p.F32 = slices.Clone(p.F32)
				out.partials = append(out.partials, p)
			}
			next(c)
			out.h, out.offsets = slices.Clone(c.Input("h").F32()), slices.Clone(c.Input("offsets").I32())
			out.dprob = slices.Clone(c.Output("dprob").F32())
			out.acc = make([]float32, len(out.h))
			w2 := c.Input("w2").F32()
			groupedMatMul(out.acc, c.Input("dy").F32(), w2, out.offsets, width, 21, true, c.Fold("k", width))
			out.arrivals = map[string][]int{}
			for _, a := range c.Arrivals {
				out.arrivals[a.Name] = a.Order
			}
		}
	})
	b.forward(1)
	b.dev.At(b.step, 0, device.Bwd)
	b.MoE.Backward(b.dev, b.dy, 1)
	return out
}

// trees are the orders in which each row's dprob was added, from the plan and what arrived.
func (d dprobRun) trees(n, tiles reduce.Order, dynamic bool) []reduce.Tree {
	til := tiling{M: small.TileM, N: 8, Sub: 2, Grid: 4}
	list := til.Tiles(d.offsets, 21)
	place := make([]int, len(list)) // of each tile in the order of dispatch
	for i := range place {
		place[i] = i
	}
	if dynamic {
		for p, tile := range d.arrivals["sched"] {
			place[tile] = p
		}
	}
	var trees []reduce.Tree
	for b := 0; b < len(list); b += 3 {
		order, reversed := tiles, make([]bool, 3)
		if !tiles.Concrete() { // the block's part of the grid's arrival
			var mine []int
			for _, x := range d.arrivals["tiles"] {
				if x/3 == b/3 {
					mine = append(mine, x%3)
				}
			}
			order = reduce.Given(mine)
		}
		for c := range reversed {
			reversed[c] = place[b+c]/til.Grid%2 == 1 // its place in its CTA's work, mod 2
		}
		tree := dProbTree(21, til, n, order, reversed)
		for range list[b].Hi - list[b].Lo {
			trees = append(trees, tree)
		}
	}
	return trees
}

// terms are the contributions relu(h)²·acc of one row.
func (d dprobRun) terms(row int) []float32 {
	x := make([]float32, 21)
	for i := range x {
		r := max(d.h[row*21+i], 0)
		x[i] = float32(float32(r*r) * d.acc[row*21+i])
	}
	return x
}

// docs/facts.md, Kernels: dprob's bits are its tiles' arrival and each tile's direction, and nothing else.
func TestDProbIsItsTree(t *testing.T) {
	bits := map[string]map[uint64]bool{}
	for _, plan := range []string{
		"tiles:seq; sched=static", "tiles:reverse; sched=static", "tiles:pairwise; n:pairwise; sched=static",
		"tiles:arrival; sched=static", "tiles:seq; sched=dynamic", "tiles:arrival; sched=dynamic",
	} {
		p := reduce.MustPlan(plan)
		n := reduce.Seq
		if slices.Contains(p.Names(), "n") {
			n = p.Order("n")
		}
		bits[plan] = map[uint64]bool{}
		for seed := range uint64(6) {
			run := runDProb(t, plan, seed)
			trees := run.trees(n, p.Order("tiles"), p.Choice("sched") == "dynamic")
			require.Len(t, trees, tokens*small.TopK)
			digest := uint64(0)
			for row, tree := range trees {
				digest = digest*31 + uint64(math.Float32bits(run.dprob[row]))
				require.Equal(t, math.Float32bits(tree.Sum(run.terms(row), lowp.FP32)), math.Float32bits(run.dprob[row]), "%s seed %d row %d", plan, seed, row)
			}
			bits[plan][digest] = true
		}
	}
	// Fixed: one result for every schedule. Each cause alone, and both, differ from schedule to schedule.
	require.Len(t, bits["tiles:seq; sched=static"], 1)
	require.Len(t, bits["tiles:reverse; sched=static"], 1)
	for _, plan := range []string{"tiles:arrival; sched=static", "tiles:seq; sched=dynamic", "tiles:arrival; sched=dynamic"} {
		require.Greater(t, len(bits[plan]), 1, plan)
	}
	require.NotEqual(t, bits["tiles:seq; sched=static"], bits["tiles:reverse; sched=static"])
}

// What the probe is shown are the tiles' partials in the order of their addition.
func TestProbeShowsWhatIsAdded(t *testing.T) {
	run := runDProb(t, "tiles:arrival; sched=dynamic", 4)
	blocks := 0
	for e := range len(run.offsets) - 1 {
		blocks += int(run.offsets[e+1]-run.offsets[e]+1) / small.TileM
	}
	require.Len(t, run.partials, 3*blocks)
	sums := map[int]float32{}
	for _, p := range run.partials {
		require.Equal(t, "grouped_gemm.dprob", p.Subkernel)
		for r, v := range p.F32 {
			if old, ok := sums[p.Row+r]; ok {
				v = old + v
			}
			sums[p.Row+r] = v
		}
	}
	for row, want := range run.dprob {
		require.Equal(t, math.Float32bits(want), math.Float32bits(sums[row]), "row %d", row)
	}
}

// watchAux runs a forward whose auxiliary loss follows a plan and returns it with its partials.
func watchAux(t *testing.T, plan string, seed uint64) (loss float32, partials []float32, ctas []int) {
	b := newBench(small, lowp.FP32)
	b.dev = device.New(device.Options{Schedule: device.Schedule{Seed: seed}}, func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Label != "aux_loss" {
				next(c)
				return
			}
			var err error
			c.Plan, err = c.Plan.With(reduce.MustPlan(plan))
			require.NoError(t, err)
			c.Probe = func(p device.Partial) { partials, ctas = append(partials, p.F32[0]), append(ctas, p.Tile) }
			next(c)
			loss = c.Output("loss").F32()[0]
		}
	})
	b.forward(1)
	return loss, partials, ctas
}

// docs/facts.md, Kernels: the loss is its CTAs' partials in the order they come; in a fixed order the bits still depend on the grid.
func TestAuxLossIsItsCTAs(t *testing.T) {
	seen := map[string]map[float32]bool{}
	for _, plan := range []string{"ctas:seq; grid=4", "ctas:reverse; grid=4", "ctas:arrival; grid=7", "ctas:seq; grid=7", "ctas:seq; grid=132"} {
		seen[plan] = map[float32]bool{}
		for seed := range uint64(12) {
			loss, partials, ctas := watchAux(t, plan, seed)
			require.Len(t, partials, min(reduce.MustPlan(plan).Int("grid"), tokens), "a CTA without rows adds nothing")
			sum := float32(math.Copysign(0, -1))
			for _, v := range partials {
				sum += v
			}
			require.Equal(t, math.Float32bits(sum), math.Float32bits(loss), plan)
			if plan == "ctas:reverse; grid=4" {
				require.Equal(t, []int{3, 2, 1, 0}, ctas)
			}
			seen[plan][loss] = true
		}
	}
	require.Len(t, seen["ctas:seq; grid=4"], 1)
	require.Greater(t, len(seen["ctas:arrival; grid=7"]), 1)
	require.Equal(t, seen["ctas:seq; grid=7"], seen["ctas:seq; grid=132"], "no more CTAs than rows")
}

// docs/facts.md, Kernels: of two experts with the same weights, so the same scores, the radix kernel takes the lower and the
// fused one by bit reversal; a rule for ties cures it.
func TestTiesFollowTheKernel(t *testing.T) {
	for plan, want := range map[string]int32{
		"fused=false; tie=native": 1, "fused=true; tie=native": 2, "fused=true; tie=low": 1, "fused=false; tie=low": 1,
	} {
		c := small
		c.TopK = 1
		b := newBench(c, lowp.FP32)
		b.dev = device.New(device.Options{}, func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				if c.Kernel.Name == "topk" {
					c.Plan = reduce.MustPlan(plan + "; slots=value; sort=false")
				}
				next(c)
			}
		})
		w := b.Router.W.W.F32()
		for i := range w {
			w[i] = float32(math.Copysign(1, float64(b.x.F32()[i%width]))) // the first token's signs: a large logit
			if e := i / width; e != 1 && e != 2 {
				w[i] = -w[i]
			}
			b.Router.Bias.Set(i/width, 0)
		}
		b.forward(1)
		require.Equal(t, want, b.index.I32()[0], plan)
	}
}
