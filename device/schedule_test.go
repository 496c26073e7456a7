package device

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel"
	"firstbit/lowp"
	"firstbit/reduce"
	"firstbit/rng"
)

func isPermutation(order []int, n int) bool {
	s := slices.Sorted(slices.Values(order))
	for i, v := range s {
		if v != i {
			return false
		}
	}
	return len(s) == n
}

// arrival draws as a Call of that path does.
func arrival(s Schedule, id ID, name string, n int) []int {
	return s.Arrival(rng.HashString(id.Phase.String()+" "+id.Path), id, name, n)
}

func TestArrivalIsAPermutation(t *testing.T) {
	id := ID{Step: 1, Phase: Fwd, Path: "layers.1.moe"}
	for _, s := range []Schedule{{}, {Seed: 7}, {Real: true}} {
		for _, n := range []int{0, 1, 2, 3, 8, 33, 100} {
			require.True(t, isPermutation(arrival(s, id, "tiles", n), n), "%s %d", s, n)
		}
	}
	require.False(t, isPermutation([]int{0, 2, 2}, 3), "negative control")
	// Any order can come: all 24 of four do, none far more often than another.
	count := map[[4]int]int{}
	for step := range 2400 {
		id.Step = step
		count[[4]int(arrival(Schedule{}, id, "tiles", 4))]++
	}
	require.Len(t, count, 24)
	for order, n := range count {
		require.InDelta(t, 100, n, 50, "%v", order)
	}
}

// The same arguments draw the same order; each of them matters.
func TestArrivalIsPureAndKeyedByEverything(t *testing.T) {
	const n = 16 // 2e13 orders: two of a handful are never equal by chance
	id := ID{Step: 3, Micro: 1, Phase: Bwd, Path: "layers.1.moe.experts.w2.dx"}
	base := arrival(Schedule{Seed: 1}, id, "tiles", n)
	require.Equal(t, base, arrival(Schedule{Seed: 1}, id, "tiles", n))
	seen := [][]int{base}
	other := func(what string, s Schedule, change func(*ID), name string) {
		i := id
		change(&i)
		got := arrival(s, i, name, n)
		require.NotContains(t, seen, got, what)
		seen = append(seen, got)
	}
	same := func(*ID) {}
	other("seed", Schedule{Seed: 2}, same, "tiles")
	other("name", Schedule{Seed: 1}, same, "sched")
	other("step", Schedule{Seed: 1}, func(i *ID) { i.Step++ }, "tiles")
	other("micro", Schedule{Seed: 1}, func(i *ID) { i.Micro++ }, "tiles")
	other("step and micro swapped", Schedule{Seed: 1}, func(i *ID) { i.Step, i.Micro = i.Micro, i.Step }, "tiles")
	other("path", Schedule{Seed: 1}, func(i *ID) { i.Path = "layers.2.moe.experts.w2.dx" }, "tiles")
	other("phase", Schedule{Seed: 1}, func(i *ID) { i.Phase = Rec }, "tiles")
	other("pp", Schedule{Seed: 1}, func(i *ID) { i.At.PP++ }, "tiles")
	other("dp", Schedule{Seed: 1}, func(i *ID) { i.At.DP++ }, "tiles")
	other("tp", Schedule{Seed: 1}, func(i *ID) { i.At.TP++ }, "tiles")
	other("cp", Schedule{Seed: 1}, func(i *ID) { i.At.CP++ }, "tiles")
	other("ep", Schedule{Seed: 1}, func(i *ID) { i.At.EP++ }, "tiles")
}

// A Call draws by its own ID, whatever ran before it, and notes what it drew only when it is watched.
func TestCallArrival(t *testing.T) {
	atomic := &Kernel{Name: "atomic", Fixed: reduce.MustPlan("n:arrival/fp32; k:splitk(4,arrival)/fp32"), Run: func(*Call) {}}
	draw := func(before, watched bool) (orders [2]string, notes int) {
		d := New(Options{Schedule: Schedule{Seed: 5}})
		d.At(2, 0, Fwd)
		if before {
			d.Open("before", atomic).Arrival("n", 9)
			pass(d, NewTensor(lowp.FP32, 2, 3), NewTensor(lowp.FP32, 2, 3))
		}
		c := d.Open("atomic", atomic)
		if watched {
			c.Probe = func(Partial) {}
		}
		orders = [2]string{c.Order("n", 9).String(), c.Order("k", 9).String()}
		return orders, len(c.Arrivals)
	}
	plain, notes := draw(false, false)
	require.Zero(t, notes)
	require.Regexp(t, `^given\(`, plain[0])
	require.Regexp(t, `^splitk\(4,given\(`, plain[1])
	after, _ := draw(true, false)
	require.Equal(t, plain, after, "what ran before does not matter")
	watched, notes := draw(false, true)
	require.Equal(t, plain, watched, "watching does not change the draw")
	require.Equal(t, 2, notes)
}

func TestParseSchedule(t *testing.T) {
	for text, want := range map[string]Schedule{"0": {}, "18446744073709551615": {Seed: 1<<64 - 1}, "real": {Real: true}} {
		s, ok := ParseSchedule(text)
		require.True(t, ok, text)
		require.Equal(t, want, s)
		require.Equal(t, text, s.String())
	}
	for _, text := range []string{"", "-1", "Real", "1.5", "18446744073709551616", "0x1"} {
		_, ok := ParseSchedule(text)
		require.False(t, ok, text)
	}
}

func TestCallMatches(t *testing.T) {
	k := &Kernel{Name: "grouped_gemm", Subkernels: []Subkernel{{Name: "grouped_gemm.dprob", Outs: []string{"dprob"}}}, Run: func(*Call) {}}
	c := New(Options{}).In("layers.1").In("experts").Open("w2.dx", k)
	require.True(t, c.Matches("*.w2.dx"))
	require.True(t, c.Matches("layers.1.experts.grouped_gemm.dprob"))
	require.True(t, c.Matches("*.dprob"))
	require.False(t, c.Matches("grouped_gemm"))
	require.True(t, k.Subkernels[0].Has("dprob"))
	require.False(t, k.Subkernels[0].Has("dx"))
}

func TestPhaseNames(t *testing.T) {
	require.Equal(t, []string{"init", "fwd", "rec", "bwd", "opt", "load"}, PhaseNames()) // docs/traces.md, Records
	for _, name := range PhaseNames() {
		p, ok := ParsePhase(name)
		require.True(t, ok)
		require.Equal(t, name, p.String())
	}
	_, ok := ParsePhase("forward")
	require.False(t, ok)
	var names []string
	for k := range kinds {
		names = append(names, k.String())
	}
	require.ElementsMatch(t, []string{"metric", "state", "collective", "p2p", "draw", "batch", "optim", "load", "recompute", "module", "op", "kernel"}, names)
}

// An order that is not one for what its Call has to add is reported, not run, and does not stop the run.
func TestOrdersThatDoNotFitAreReported(t *testing.T) {
	sum := func(plan string, n int) ([]float32, error) {
		k := &Kernel{Name: "sum", Out: Names("y"), Fixed: reduce.MustPlan(plan)}
		dev := New(Options{})
		dev.At(1, 0, Fwd)
		c := dev.In("here").Open("y", k)
		y := c.Write("y", lowp.FP32, 1)
		x := []float32{1, 0x1p25, 1, -0x1p25}
		c.Body = func(c *Call) { y.F32()[0] = kernel.Sum(c.Fold("n", n), x, 1) }
		c.Do()
		return y.F32(), dev.Err()
	}
	got, err := sum("n:given(1 3 0 2)", 4)
	require.NoError(t, err)
	require.Equal(t, []float32{2}, got)
	for plan, why := range map[string]string{
		"n:given(1 0)":                     "is not an order of 4 values, but of 2",
		"n:tree((0 (1 2)))":                "is not an order of 4 values, but of 3",
		"n:splitk(2,given(0 1 2))":         `joins 2 parts of 4 values by "given(0 1 2)", which is not an order of 2 values, but of 3`,
		"n:blocked(3,seq,tree((1 (0 2))))": `has a part of 1 among 4 values, and "tree((1 (0 2)))" is not an order of 1 values, but of 3`,
	} {
		got, err = sum(plan, 4)
		require.EqualError(t, err, "plan for here.y (sum): "+plan+"/fp32: "+why)
		require.Equal(t, []float32{0}, got, "in sequence")
	}
	_, err = sum("n:given(1 0)", 0)
	require.NoError(t, err, "of nothing there is one order")
}
