package ssm

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/reduce"
)

// wired is what each item of a kernel's plan decides, by the label of its Call: the outputs in which its order shows.
var wired = map[string]map[string]string{
	"conv":       {"taps": "y"},
	"conv.dx":    {"taps": "dx"},
	"conv.dw":    {"rows": "dw dbias"},
	"scan":       {"n": "y", "steps": "y last", "chunk": "y last", "within": "y last"},
	"scan.dx":    {"n": "dx ddt dla", "p": "db dc ddt dla", "steps": "dx db dc ddt dla", "state": "dla", "heads": "db dc", "chunk": "dx db dc ddt dla", "within": "dx db dc ddt dla"},
	"d.dw":       {"p": "dd", "rows": "dd"},
	"a_log.dw":   {"rows": "da", "coeff": "da"},
	"dt_bias.dw": {"rows": "db"},
	"norm":       {"d": "y rstd"},
	"norm.dx":    {"d": "dx dz"},
	"norm.dw":    {"rows": "dw"},
}

// long is a layer whose every sum has three leaves or more, since two are the same either way round, and whose
// sequences have three chunks, since a state's sum takes a chunk before and one after.
func long() shape {
	return shape{Config{Heads: 6, HeadDim: 5, State: 7, Groups: 2, Conv: 4}, 2, 12, 5}
}

func newLong(schedule uint64, plans map[string]string) *bench {
	b := newBench(long(), lowp.FP32, schedule)
	b.plans = map[string]string{"scan": "chunk=4", "scan.dx": "chunk=4"}
	for label, item := range plans {
		if chunk := b.plans[label]; chunk != "" && !strings.HasPrefix(item, "chunk") {
			item = chunk + "; " + item
		}
		b.plans[label] = item
	}
	return b
}

// outputs are the bytes that every Call of a forward and backward wrote, by label#name.
func (b *bench) outputs() map[string]string {
	all := map[string]string{}
	b.after = func(c *device.Call) {
		for _, o := range c.Out {
			all[c.Label+"#"+o.Name] = string(o.Bytes(nil))
		}
	}
	b.gradients()
	b.after = nil
	return all
}

// changed are the outputs of one Call in which two runs differ.
func changed(a, b map[string]string, label string) []string {
	var names []string
	for at := range a { // sorted below
		if l, name, _ := strings.Cut(at, "#"); l == label && a[at] != b[at] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func sorted(names string) []string { return slices.Sorted(slices.Values(strings.Fields(names))) }

// The table above is all there is to choose: no plan has an item that it lacks, nor the other way round.
func TestEveryPlanIsWired(t *testing.T) {
	b, seen := newLong(0, nil), map[string]bool{}
	b.after = func(c *device.Call) {
		for _, plan := range []reduce.Plan{c.Kernel.Fixed, c.Kernel.Fast} {
			if plan.Empty() || strings.HasPrefix(c.Kernel.Name, "matmul") {
				continue
			}
			require.Equal(t, slices.Sorted(maps.Keys(wired[c.Label])), slices.Sorted(slices.Values(plan.Names())), c.Label)
			seen[c.Label] = true
		}
	}
	b.gradients()
	require.Len(t, seen, len(wired))
}

// Each item decides the bits of the outputs it should, and of no other: by another order, by another format of
// partial sums, and by arrival.
func TestPlansDecideWhatTheySay(t *testing.T) {
	fixed := newLong(0, nil).outputs()
	require.Equal(t, fixed, newLong(7, nil).outputs(), "no schedule reaches a fixed plan")
	for label, items := range wired {
		for item, want := range items {
			orders := []string{item + ":reverse", item + ":seq/bf16", item + ":perm(3)"}
			switch item {
			case "chunk":
				orders = []string{"chunk=1", "chunk=3", "chunk=12"}
			case "within":
				orders = []string{"within=segment"}
			case "coeff":
				orders = []string{"coeff=token"}
			}
			for _, order := range orders {
				got := newLong(0, map[string]string{label: order}).outputs()
				require.Equal(t, sorted(want), changed(fixed, got, label), "%s %s", label, order)
			}
			if item != "chunk" && item != "within" && item != "coeff" {
				arrives(t, label, item+":arrival", want)
			}
		}
	}
}

// arrives demands that a sum in arrival order replays under one schedule and differs under another, in the outputs
// it decides and no other.
func arrives(t *testing.T, label, plan, want string) {
	t.Helper()
	run := func(seed uint64) map[string]string { return newLong(seed, map[string]string{label: plan}).outputs() }
	one, seen := run(1), map[string]bool{}
	require.Equal(t, one, run(1), "%s %s replays", label, plan)
	for seed := range uint64(6) {
		for _, name := range changed(one, run(seed+2), label) {
			seen[name] = true
		}
	}
	require.Equal(t, sorted(want), slices.Sorted(maps.Keys(seen)), "%s %s", label, plan)
}

// The fast plans replay and race; only gradients see them.
func TestFastPlansRace(t *testing.T) {
	run := func(seed uint64) map[string]string {
		b := newLong(seed, nil)
		b.fast = true
		return b.outputs()
	}
	one, seen := run(1), map[string]map[string]bool{}
	require.Equal(t, one, run(1))
	for seed := range uint64(6) {
		two := run(seed + 2)
		for label := range wired {
			if seen[label] == nil {
				seen[label] = map[string]bool{}
			}
			for _, name := range changed(one, two, label) {
				seen[label][name] = true
			}
		}
	}
	// What a sum that raced wrote is read by conv.dx, and by that alone of these.
	racing := map[string]string{"scan.dx": "db dc", "d.dw": "dd", "a_log.dw": "da", "dt_bias.dw": "db", "conv.dw": "dbias dw", "norm.dw": "dw", "conv.dx": "dx"}
	for label, names := range seen {
		require.Equal(t, sorted(racing[label]), slices.Sorted(maps.Keys(names)), label)
	}
}

// A chunk longer than the sequence is the sequence.
func TestChunksLongerThanTheSequence(t *testing.T) {
	run := func(chunk string) map[string]string {
		return newLong(0, map[string]string{"scan": chunk, "scan.dx": chunk}).outputs()
	}
	whole := run("chunk=12")
	require.Equal(t, whole, run("chunk=13"))
	require.Equal(t, whole, run("chunk=1048576"))
	require.NotEqual(t, whole, run("chunk=11"))
}

// Neither who watches nor how many processors there are reaches a bit.
func TestNothingElseReachesABit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	s := shape{Config{Heads: 2, HeadDim: 64, State: 64, Groups: 1, Conv: 4}, 1, 70, 32} // products above what one goroutine keeps
	run := func(procs int, probe bool, d float64) map[string]string {
		runtime.GOMAXPROCS(procs)
		b := newBench(s, lowp.FP32, 0)
		b.probe = probe
		b.plans = map[string]string{"scan": "chunk=64", "scan.dx": "chunk=64"}
		b.Skip.W.Set(0, d)
		return b.outputs()
	}
	one := run(1, false, 1)
	require.Equal(t, one, run(4, false, 1))
	require.Equal(t, one, run(4, true, 1))
	require.NotEqual(t, one, run(4, false, 1.5), "negative control")
}

// revealed are sums laid bare through the door: each adds exactly the values it is given, with 1 for every factor.
var revealed = map[string]func(dev *device.Device, x []float32) float32{
	"taps": func(dev *device.Device, x []float32) float32 {
		n := len(x)
		c := dev.Open("call", convolution)
		c.Read("x", tensorOf(ones(n), n, 1))
		c.Read("w", tensorOf(x, 1, n))
		c.Read("bias", tensorOf([]float32{negzero}, 1))
		c.ReadScalar("batch", 1)
		y := c.Write("y", lowp.FP32, n, 1)
		c.Do()
		return y.F32()[n-1]
	},
	"rows": func(dev *device.Device, x []float32) float32 {
		c := dev.Open("call", biasBackward)
		c.Read("dy", tensorOf(x, len(x), 1))
		y := c.Write("db", lowp.FP32, 1)
		c.Do()
		return y.F32()[0]
	},
	"n": func(dev *device.Device, x []float32) float32 { // y = (c·b)·dt·x of one step
		n := len(x)
		y, _ := Scan(dev, &Sequence{X: tensorOf(ones(1), 1, 1), B: tensorOf(ones(n), 1, n), C: tensorOf(x, 1, n),
			DT: tensorOf(ones(1), 1, 1), LA: tensorOf([]float32{0}, 1, 1), D: tensorOf([]float32{negzero}, 1), Batch: 1, Groups: 1})
		return y.F32()[0]
	},
	"p": func(dev *device.Device, x []float32) float32 { // ddt = du·x of one step, where du = dy
		n := len(x)
		s := &Sequence{X: tensorOf(ones(n), 1, n), B: tensorOf(ones(1), 1, 1), C: tensorOf(ones(1), 1, 1),
			DT: tensorOf(ones(1), 1, 1), LA: tensorOf([]float32{0}, 1, 1), D: tensorOf([]float32{0}, 1), Batch: 1, Groups: 1}
		return scanGradient(dev, s, tensorOf(x, 1, n), "ddt")[0]
	},
	"state": func(dev *device.Device, x []float32) float32 { // dla of the middle of three steps = ⟨dS, S⟩, S = b of the first, dS = c of the last
		n := len(x)
		b, c, zero := make([]float32, 3*n), make([]float32, 3*n), make([]float32, 3)
		copy(b, x)
		copy(c[2*n:], ones(n))
		s := &Sequence{X: tensorOf([]float32{1, 0, 0}, 3, 1), B: tensorOf(b, 3, n), C: tensorOf(c, 3, n),
			DT: tensorOf(ones(3), 3, 1), LA: tensorOf(zero, 3, 1), D: tensorOf(zero[:1], 1), Batch: 1, Groups: 1}
		return scanGradient(dev, s, tensorOf([]float32{0, 0, 1}, 3, 1), "dla")[1]
	},
	"heads": func(dev *device.Device, x []float32) float32 { // dc of one step = Σ over heads of dy·u·b
		n := len(x)
		s := &Sequence{X: tensorOf(ones(n), 1, n), B: tensorOf(ones(1), 1, 1), C: tensorOf(ones(1), 1, 1),
			DT: tensorOf(ones(n), 1, n), LA: tensorOf(make([]float32, n), 1, n), D: tensorOf(make([]float32, n), n), Batch: 1, Groups: 1}
		return scanGradient(dev, s, tensorOf(x, 1, n), "dc")[0]
	},
}

// labels are the Calls whose plan has the sum that revealed lays bare.
var labels = map[string]string{"taps": "call", "rows": "call", "n": "scan", "p": "scan.dx", "state": "scan.dx", "heads": "scan.dx"}

func scanGradient(dev *device.Device, s *Sequence, dy *device.Tensor, out string) []float32 {
	rows, h := s.X.Rows(), s.D.Len()
	m := &Mamba{Config: Config{Heads: h}, seq: *s, Skip: nn.NewParam("d", lowp.FP32, true, h)}
	m.Skip.W = s.D
	var got []float32
	dact, ddt, dla := m.scanBackward(dev, dy)
	switch out {
	case "ddt":
		got = ddt.F32()
	case "dla":
		got = dla.F32()
	default: // of one row, x, b and c side by side
		got = dact.F32()[dact.Len()/rows-s.C.Cols():]
	}
	return got
}

func ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

var negzero = -1 / float32(1e30) / 1e30

func tensorOf(x []float32, shape ...int) *device.Tensor {
	t := device.NewTensor(lowp.FP32, shape...)
	copy(t.F32(), x)
	return t
}

// What Reveal finds behind each reduction is the tree of its order, at the place where the plan says it.
func TestRevealedTreesAreThePlans(t *testing.T) {
	const n = 11
	for item, sum := range revealed {
		for _, order := range []string{"seq", "reverse", "pairwise", "blocked(4)", "lanes(4)", "splitk(3)", "splitk(3,reverse)", "perm(7)"} {
			summer := func(x []float32) float32 {
				plan := reduce.MustPlan(item + ":" + order)
				dev := device.New(device.Options{}, func(next device.Runner) device.Runner {
					return func(c *device.Call) {
						if c.Label == labels[item] {
							c.Plan, _ = c.Plan.With(plan)
							if c.Plan.Has("chunk") {
								c.Plan, _ = c.Plan.With(reduce.MustPlan("chunk=1"))
							}
						}
						next(c)
					}
				})
				dev.At(1, 0, device.Bwd)
				return sum(dev, x)
			}
			got, err := reduce.Reveal(n, summer, lowp.FP32)
			require.NoError(t, err, "%s by %s", item, order)
			require.True(t, got.Verified, "%s by %s", item, order)
			want := reduce.MustOrder(order).Tree(n)
			require.True(t, got.Tree.Equal(want), "%s by %s: revealed %s, the plan says %s", item, order, got.Tree, want)
			if order != "seq" {
				require.False(t, got.Tree.Equal(reduce.Seq.Tree(n)), "negative control")
			}
		}
	}
}
