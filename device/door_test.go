package device

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
	"firstbit/lowp"
	"firstbit/reduce"
)

// idle is a middleware that watches nothing.
func idle(next Runner) Runner { return func(c *Call) { next(c) } }

var nothing = &Kernel{Name: "nothing", In: Names("a b"), Scalars: Names("scale"), Out: Names("y"), Fixed: reduce.MustPlan("k:seq/fp32"), Run: func(*Call) {}}

// pass sends one Call with two inputs, a scalar and an output through the door.
func pass(d *Device, a, b *Tensor) *Tensor {
	c := d.Open("nothing", nothing)
	c.Read("a", a)
	c.Read("b", b)
	c.ReadScalar("scale", 0.5)
	y := c.Write("y", lowp.FP32, 2, 3)
	c.Do()
	return y
}

func TestDoorAllocatesNothing(t *testing.T) {
	if check.Raced() {
		t.Skip("the race detector makes pools forget")
	}
	d := New(Options{}, idle, idle, idle, idle).In("layers.0")
	a, b := NewTensor(lowp.FP32, 2, 3), NewTensor(lowp.BF16, 2, 3)
	step := 0
	again := func(label string) float64 {
		return testing.AllocsPerRun(100, func() {
			step++
			d.At(step, 0, Fwd)
			switch label {
			case "nothing":
				pass(d, a, b)
			case "scope":
				pass(d.In("deeper").In("still"), a, b)
			case "fresh":
				c := *d.Open("fresh", nothing)
				c.In = []Arg{{"a", a}, {"b", b}}
				c.ReadScalar("scale", 0.5)
				c.Update("y", a)
				c.Do()
			}
		})
	}
	for _, label := range []string{"nothing", "scope"} {
		require.Zero(t, again(label), label)
	}
	require.NotZero(t, again("fresh"), "negative control: a fresh Call allocates, and this counts it")
}

func BenchmarkDoor(b *testing.B) {
	for _, n := range []int{0, 4} {
		b.Run(fmt.Sprintf("%d idle middlewares", n), func(b *testing.B) {
			d := New(Options{}, []Middleware{idle, idle, idle, idle}[:n]...).In("layers.0")
			x, y := NewTensor(lowp.FP32, 2, 3), NewTensor(lowp.FP32, 2, 3)
			b.ReportAllocs()
			step := 0
			for b.Loop() {
				step++
				d.At(step, 0, Fwd)
				pass(d, x, y)
			}
		})
	}
	b.Run("Do alone", func(b *testing.B) { // a Call at hand through four closures
		d := New(Options{}, idle, idle, idle, idle)
		c := d.Open("nothing", nothing)
		b.ReportAllocs()
		for b.Loop() {
			c.Do()
		}
	})
}

// Names are identities: once in (step, microbatch, phase), any number of times over the run.
func TestRepeatedPathPanics(t *testing.T) {
	d := New(Options{})
	a := NewTensor(lowp.FP32, 2, 3)
	d.At(1, 0, Fwd)
	pass(d, a, a)
	require.Panics(t, func() { pass(d, a, a) })
	for _, at := range []struct {
		step, micro int
		phase       Phase
	}{{1, 1, Fwd}, {2, 0, Fwd}, {2, 0, Bwd}, {2, 0, Rec}} {
		d.At(at.step, at.micro, at.phase)
		require.NotPanics(t, func() { pass(d, a, a) }, "%v", at)
		require.Panics(t, func() { pass(d, a, a) }, "%v", at)
	}
	// Another scope is another path, and the same scope asked for twice is one.
	require.NotPanics(t, func() { pass(d.In("layers.0"), a, a) })
	require.Panics(t, func() { pass(d.In("layers.0"), a, a) })
	require.Same(t, d.In("layers.0"), d.In("layers.0"))
	require.NotSame(t, d.In("s.0"), d.In("0"))
	require.Equal(t, "layers.0.moe", d.In("layers.0").In("moe").Scope())
	require.NotSame(t, d.In("layers.0").In("0"), d.In("layers.0"))
}

// A middleware that sets the Plan in place does so for one passage: the next Open resets it.
func TestReusedCallForgetsItsPlan(t *testing.T) {
	var seen []string
	tune := func(next Runner) Runner {
		return func(c *Call) {
			seen = append(seen, c.Plan.String())
			c.Plan = reduce.MustPlan("k:reverse/fp32")
			next(c)
		}
	}
	inject := func(next Runner) Runner {
		return func(c *Call) { seen = append(seen, c.Plan.String()); next(c) }
	}
	d := New(Options{}, tune, inject)
	a := NewTensor(lowp.FP32, 2, 3)
	for step := 1; step <= 2; step++ {
		d.At(step, 0, Fwd)
		pass(d, a, a)
	}
	require.Equal(t, []string{"k:seq/fp32", "k:reverse/fp32", "k:seq/fp32", "k:reverse/fp32"}, seen)
}

// A Call carries what a trace needs, and rounds and signs what it wrote.
func TestCallNamesWhatItWrites(t *testing.T) {
	d := New(Options{At: Coord{DP: 1}, Rank: 3}).In("layers.2").In("attn")
	d.At(5, 1, Bwd)
	two := &Kernel{Name: "two", Out: Names("y z"), Run: func(c *Call) {
		c.Output("y").F32()[0] = 1.0 / 3
		c.Output("z").F32()[0] = 1.0 / 3
	}}
	c := d.Open("w1.dx", two)
	y, z := c.Write("y", lowp.BF16, 1), c.Write("z", lowp.FP32, 1)
	c.Do()
	require.Equal(t, ID{Step: 5, Micro: 1, At: Coord{DP: 1}, Phase: Bwd, Path: "layers.2.attn.w1.dx"}, c.ID)
	require.Equal(t, "layers.2.attn", c.Scope)
	require.Equal(t, "w1.dx", c.Label)
	require.Equal(t, DefaultLibrary, c.Library)
	require.Equal(t, float32(0.333984375), y.F32()[0], "rounded to bf16")
	require.Equal(t, float32(1.0/3), z.F32()[0])
	require.Equal(t, "bwd layers.2.attn.w1.dx#y", y.From)
	require.Equal(t, "bwd layers.2.attn.w1.dx#z", z.From)

	d.At(6, 1, Bwd)
	c = d.Open("w1.dx", two)
	require.Same(t, y, c.Write("y", lowp.BF16, 1), "the site owns its outputs")
	require.NotSame(t, z, c.Write("z", lowp.FP32, 2), "another shape is other storage")
}

// Outputs whose rows change keep their memory as long as it suffices, whatever they shrank to in between; more of them, or another format, is another.
func TestOutputsKeepTheirMemory(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.FP64, lowp.INT32} {
		d, step, k := New(Options{}), 0, &Kernel{Name: "y", Out: Names("y")}
		write := func(f lowp.Format, shape ...int) *Tensor {
			step++
			d.At(step, 0, Fwd)
			y := d.Open("y", k).Write("y", f, shape...)
			require.Equal(t, shape, y.Shape())
			n := 1
			for _, extent := range shape {
				n *= extent
			}
			require.Equal(t, n, y.Len())
			return y
		}
		y := write(f, 3, 4)
		whole := y.View(0, 12)
		for _, shape := range [][]int{{2, 4}, {0, 4}, {4, 3}, {12}, {3, 4}} {
			require.Same(t, y, write(f, shape...), "%v", shape)
			require.True(t, y.LiesIn(whole, 0), "%v", shape)
		}
		require.NotSame(t, y, write(f, 4, 4))
		require.NotSame(t, y, write(lowp.BF16, 3, 4))
	}
}

// An output's producer is told from a Call whose name it looks like: "batch" with the output "tokens", and "batch.tokens".
func TestProducersOfLikeNames(t *testing.T) {
	d := New(Options{})
	x := NewTensor(lowp.FP32, 1)
	both := &Kernel{Name: "two", Out: Names("tokens targets"), Run: func(*Call) {}}
	one := &Kernel{Name: "one", Out: Names("x"), Run: func(*Call) {}}
	for step := range 2 {
		d.At(step+1, 0, Fwd)
		c := d.Open("batch", both)
		c.Update("tokens", x)
		c.Update("targets", NewTensor(lowp.FP32, 1))
		c.Do()
		require.Equal(t, "fwd batch#tokens", x.From)
		c = d.Open("batch.tokens", one)
		c.Update("x", x)
		c.Do()
		require.Equal(t, "fwd batch.tokens", x.From)
	}
}
