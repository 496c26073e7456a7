package parallel

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
)

// planned is a middleware that sets items of every collective's plan, as a tuner would.
func planned(text string) device.Middleware {
	plan, err := reduce.ParsePlan(text)
	if err != nil {
		panic(err)
	}
	return func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Plan.Has("ranks") {
				p, err := c.Plan.With(plan)
				if err != nil {
					panic(err)
				}
				c.Plan = p
			}
			next(c)
		}
	}
}

// simulate runs a world to its end and holds it to three things: it comes to one, no rank outlives it, and each
// body that began either ended or was stopped.
func simulate(t testing.TB, n, node int, body func(r Rank, dev *device.Device) error, middleware ...device.Middleware) error {
	return simulateIn(t, NewWorld(Layout{DP: n}, node), body, middleware...)
}

func simulateIn(t testing.TB, w *World, body func(r Rank, dev *device.Device) error, middleware ...device.Middleware) error {
	t.Helper()
	before := runtime.NumGoroutine()
	result := make(chan error, 1)
	go func() {
		result <- w.Run(func(r Rank) error {
			dev := device.New(device.Options{Rank: r.Index, At: w.At(r.Index)}, middleware...)
			dev.At(1, 0, device.Opt)
			return body(r, dev)
		})
	}()
	select {
	case err := <-result:
		for wait := time.Microsecond; runtime.NumGoroutine() > before; wait *= 2 {
			if wait > 4*time.Second {
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
				t.Fatal("a rank outlives its world")
			}
			time.Sleep(wait)
		}
		return err
	case <-time.After(30 * time.Second):
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		t.Fatal("the ranks hang")
		return nil
	}
}

// alone is a message of one tensor.
func alone(x *device.Tensor) *device.Buffer {
	b := device.NewBuffer(x.Format, x.Len())
	b.Hold(0, "x", x)
	return b
}

// gather gathers one tensor a rank, and returns a new one.
func gather(m Member, dev *device.Device, label string, x *device.Tensor, n int) *device.Tensor {
	y := device.NewTensor(x.Format, n)
	m.AllGather(dev, label, []device.Arg{{Name: "x", Tensor: x}}, alone(y))
	return y
}

func vector(n int) *device.Tensor { return device.NewTensor(lowp.FP32, n) }

// repeats is how often a mistake is made again: arrival is the machine's own, so what depended on it would show.
func repeats() int {
	if testing.Short() {
		return 40
	}
	return 200
}

// mistakes end a run with one error, always the same, that names both sides.
var mistakes = []struct {
	name  string
	ranks int
	body  func(r Rank, dev *device.Device) error
	want  string
}{
	{"other calls", 3, func(r Rank, dev *device.Device) error {
		if r.Index == 1 {
			r.DP().ReduceScatter(dev, "x", alone(vector(6)))
			return nil
		}
		r.DP().AllReduce(dev, "x", vector(6))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt x (all_reduce) of step 1 microbatch 0, rank 1 in opt x (reduce_scatter) of step 1 microbatch 0: they are different calls"},
	{"other labels", 5, func(r Rank, dev *device.Device) error {
		r.DP().AllReduce(dev, []string{"x", "x", "x", "y", "z"}[r.Index], vector(6))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt x (all_reduce) of step 1 microbatch 0, rank 3 in opt y (all_reduce) of step 1 microbatch 0: they are different calls"},
	{"other scopes", 2, func(r Rank, dev *device.Device) error {
		r.DP().AllReduce(dev.In(fmt.Sprint("layers.", r.Index)), "x", vector(6))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt layers.0.x (all_reduce) of step 1 microbatch 0, rank 1 in opt layers.1.x (all_reduce) of step 1 microbatch 0: they are different calls"},
	{"other formats", 2, func(r Rank, dev *device.Device) error {
		r.DP().AllReduce(dev, "x", device.NewTensor([]lowp.Format{lowp.FP32, lowp.FP64}[r.Index], 6))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt x (all_reduce) of step 1 microbatch 0, rank 1 in opt x (all_reduce) of step 1 microbatch 0: x is fp32 and fp64"},
	{"bf16 beside fp32", 2, func(r Rank, dev *device.Device) error {
		r.DP().AllReduce(dev, "x", device.NewTensor([]lowp.Format{lowp.FP32, lowp.BF16}[r.Index], 6))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt x (all_reduce) of step 1 microbatch 0, rank 1 in opt x (all_reduce) of step 1 microbatch 0: x is fp32 and bf16"},
	{"other lengths", 3, func(r Rank, dev *device.Device) error {
		r.DP().AllReduce(dev, "x", vector(6+r.Index/2))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt x (all_reduce) of step 1 microbatch 0, rank 2 in opt x (all_reduce) of step 1 microbatch 0: x is [6] and [7]"},
	{"other shapes", 2, func(r Rank, dev *device.Device) error {
		r.DP().ReduceScatter(dev, "x", alone(device.NewTensor(lowp.FP32, [][]int{{2, 3}, {3, 2}}[r.Index]...)))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt x (reduce_scatter) of step 1 microbatch 0, rank 1 in opt x (reduce_scatter) of step 1 microbatch 0: x is [2×3] and [3×2]"},
	{"other totals", 3, func(r Rank, dev *device.Device) error {
		lo, hi := Shard(6, 3, r.Index)
		gather(r.DP(), dev, "x", vector(hi-lo), 6+r.Index/2)
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt x (all_gather) of step 1 microbatch 0, rank 2 in opt x (all_gather) of step 1 microbatch 0: n is 6 and 7"},
	{"a shard of another's length", 3, func(r Rank, dev *device.Device) error {
		gather(r.DP(), dev, "x", vector(2), 5) // the last shard is one element
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 2 in opt x (all_gather) of step 1 microbatch 0 brings a shard of 2 of 5 elements: must be 1"},
	{"counts of other lengths", 2, func(r Rank, dev *device.Device) error {
		r.DP().SumCounts(dev, "n", device.NewTensor(lowp.INT32, 3+r.Index))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt n (all_reduce.int) of step 1 microbatch 0, rank 1 in opt n (all_reduce.int) of step 1 microbatch 0: x is [3] and [4]"},
	{"other steps", 3, func(r Rank, dev *device.Device) error {
		dev.At(1+r.Index%2, 0, device.Opt)
		r.DP().AllReduce(dev, "x", vector(6))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt x (all_reduce) of step 1 microbatch 0, rank 1 in opt x (all_reduce) of step 2 microbatch 0: they are of different times"},
	{"other microbatches", 2, func(r Rank, dev *device.Device) error {
		dev.At(1, r.Index, device.Opt)
		r.DP().AllReduce(dev, "x", vector(6))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in opt x (all_reduce) of step 1 microbatch 0, rank 1 in opt x (all_reduce) of step 1 microbatch 1: they are of different times"},
	{"other phases", 2, func(r Rank, dev *device.Device) error {
		dev.At(1, 0, []device.Phase{device.Fwd, device.Bwd}[r.Index])
		r.DP().AllReduce(dev, "x", vector(6))
		return nil
	}, "parallel: ranks of group dp meet in different calls: rank 0 in fwd x (all_reduce) of step 1 microbatch 0, rank 1 in bwd x (all_reduce) of step 1 microbatch 0: they are of different times"},
	{"a rank that ends early", 4, func(r Rank, dev *device.Device) error {
		r.DP().AllReduce(dev, "x", vector(6))
		if r.Index != 2 {
			r.DP().AllReduce(dev, "y", vector(6))
		}
		return nil
	}, "parallel: ranks wait for ever: each of ranks 0, 1, 3 waits in opt y (all_reduce) of step 1 microbatch 0; rank 2 has ended"},
	{"a rank that never comes", 2, func(r Rank, dev *device.Device) error {
		if r.Index == 0 {
			r.DP().AllReduce(dev, "x", vector(6))
		}
		return nil
	}, "parallel: ranks wait for ever: rank 0 waits in opt x (all_reduce) of step 1 microbatch 0; rank 1 has ended"},
	{"most ranks end early", 12, func(r Rank, dev *device.Device) error {
		if r.Index == 5 {
			r.DP().AllReduce(dev, "x", vector(6))
		}
		return nil
	}, "parallel: ranks wait for ever: each of 11 ranks (0, 1, 2, 3, …) has ended; rank 5 waits in opt x (all_reduce) of step 1 microbatch 0"},
	{"different calls and a rank that never comes", 3, func(r Rank, dev *device.Device) error {
		switch r.Index {
		case 0:
			r.DP().AllReduce(dev, "x", vector(6))
		case 1:
			r.DP().AllReduce(dev, "y", vector(6))
		}
		return nil
	}, "parallel: ranks wait for ever: rank 0 waits in opt x (all_reduce) of step 1 microbatch 0; rank 1 waits in opt y (all_reduce) of step 1 microbatch 0; rank 2 has ended"},
	{"an error of one body", 4, func(r Rank, dev *device.Device) error {
		if r.Index == 3 {
			return errors.New("the disk is full")
		}
		r.DP().AllReduce(dev, "x", vector(6))
		return nil
	}, "the disk is full"},
	{"errors of two bodies", 4, func(r Rank, dev *device.Device) error {
		if r.Index%2 == 1 {
			return fmt.Errorf("rank %d: the disk is full", r.Index)
		}
		r.DP().AllReduce(dev, "x", vector(6))
		return nil
	}, "rank 1: the disk is full"},
	{"an error after a meeting, and an error before the next", 3, func(r Rank, dev *device.Device) error {
		r.DP().AllReduce(dev, "x", vector(6))
		if r.Index > 0 {
			runtime.Gosched()
			return fmt.Errorf("rank %d: the disk is full", r.Index)
		}
		r.DP().AllReduce(dev, "y", vector(6))
		return nil
	}, "rank 1: the disk is full"},
}

func TestMistakesEndTheRunWithOneError(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			for range repeats() {
				require.EqualError(t, simulate(t, m.ranks, 4, m.body), m.want)
			}
		})
	}
}

// Plans are part of what ranks agree on.
func TestRanksMeetByOnePlan(t *testing.T) {
	for range repeats() {
		err := simulate(t, 3, 4, func(r Rank, dev *device.Device) error {
			if r.Index == 2 {
				dev = device.New(device.Options{Rank: 2}, planned("ranks:seq"))
				dev.At(1, 0, device.Opt)
			}
			r.DP().AllReduce(dev, "x", vector(6))
			return nil
		})
		require.EqualError(t, err, "parallel: ranks of group dp meet in different calls: rank 0 in opt x (all_reduce) of step 1 microbatch 0, rank 2 in opt x (all_reduce) of step 1 microbatch 0: "+
			`their plans are "ranks:ring/fp32; channels=1; ring=1; communicators=1; tuned=false" and "ranks:seq/fp32; channels=1; ring=1; communicators=1; tuned=false"`)
	}
}

// The same world without a mistake has no error: each case above is one because of its mistake.
func TestRanksThatAgreeHaveNoError(t *testing.T) {
	for range repeats() {
		require.NoError(t, simulate(t, 5, 4, func(r Rank, dev *device.Device) error {
			m := r.DP()
			for step := 1; step <= 3; step++ {
				dev.At(step, 0, device.Opt)
				x := vector(7)
				for i := range x.F32() {
					x.F32()[i] = float32(step)
				}
				s := m.ReduceScatter(dev, "s", alone(x))
				y := gather(m, dev, "g", s, 7)
				for _, v := range y.F32() {
					if v != float32(5*step) {
						return fmt.Errorf("rank %d has %v in step %d", r.Index, y.F32(), step)
					}
				}
			}
			return nil
		}))
	}
}

// halves is a world of four ranks in two more groups that share them crosswise.
func halves() (w *World, rows, columns [2]*Group) {
	w = NewWorld(Layout{DP: 4}, 4)
	for i := range 2 {
		rows[i] = w.group(fmt.Sprint("row", i), []int{2 * i, 2*i + 1}, 1)
		columns[i] = w.group(fmt.Sprint("column", i), []int{i, 2 + i}, 1)
	}
	return w, rows, columns
}

// Two pairs of ranks, each waiting in its row for one that waits in its column: nobody has ended, nobody can go on.
func TestRanksThatWaitForEachOtherInTwoGroups(t *testing.T) {
	for range repeats() {
		w, rows, columns := halves()
		err := simulateIn(t, w, func(r Rank, dev *device.Device) error {
			row, column := Member{rows[r.Index/2], r.Index % 2}, Member{columns[r.Index%2], r.Index / 2}
			if r.Index == 0 || r.Index == 3 {
				row.AllReduce(dev, "row", vector(3))
				column.AllReduce(dev, "column", vector(3))
				return nil
			}
			column.AllReduce(dev, "column", vector(3))
			row.AllReduce(dev, "row", vector(3))
			return nil
		})
		require.EqualError(t, err, "parallel: ranks wait for ever: each of ranks 0, 3 waits in opt row (all_reduce) of step 1 microbatch 0; each of ranks 1, 2 waits in opt column (all_reduce) of step 1 microbatch 0")
	}
	// In one order for all, the same groups meet.
	w, rows, columns := halves()
	require.NoError(t, simulateIn(t, w, func(r Rank, dev *device.Device) error {
		x := vector(1)
		x.F32()[0] = float32(int(1) << r.Index)
		y := Member{rows[r.Index/2], r.Index % 2}.AllReduce(dev, "row", x)
		z := Member{columns[r.Index%2], r.Index / 2}.AllReduce(dev, "column", y)
		if z.F32()[0] != 15 {
			return fmt.Errorf("rank %d has %g", r.Index, z.F32()[0])
		}
		return nil
	}))
}

// Two groups that each meet in different calls: whichever is seen first, the error is that of the lowest rank.
func TestTwoGroupsWithMistakesOfTheirOwn(t *testing.T) {
	for range repeats() {
		w, rows, _ := halves()
		err := simulateIn(t, w, func(r Rank, dev *device.Device) error {
			Member{rows[r.Index/2], r.Index % 2}.AllReduce(dev, "x", vector(1+r.Index))
			return nil
		})
		require.EqualError(t, err, "parallel: ranks of group row0 meet in different calls: rank 0 in opt x (all_reduce) of step 1 microbatch 0, rank 1 in opt x (all_reduce) of step 1 microbatch 0: x is [1] and [2]")
	}
}

// Shards are contiguous, in order, and all of the elements; only the last ones may be shorter, or empty.
func TestShard(t *testing.T) {
	for size := 1; size <= 33; size++ {
		for n := range 70 {
			at, full := 0, (n+size-1)/size
			for i := range size {
				lo, hi := Shard(n, size, i)
				require.Equal(t, at, lo)
				require.Equal(t, min(full, n-at), hi-lo)
				at = hi
			}
			require.Equal(t, n, at)
		}
	}
}

// Whoever comes last to a meeting whose work panics, the error is the first member's and the same, and no rank outlives it.
func TestCrashes(t *testing.T) {
	meeting := &device.Kernel{Name: "meeting", Scalars: device.Names("ranks nodes")}
	crash := func(where int) error {
		w := NewWorld(Layout{DP: 4}, 2)
		w.Crash = func(_ int, p any) error { return fmt.Errorf("made of %v", p) }
		return simulateIn(t, w, func(r Rank, dev *device.Device) error {
			if r.Index == where {
				panic("a body")
			}
			m := r.Data()
			c := m.open(dev, "x", meeting)
			c.Body = func(c *device.Call) {
				m.meet(c, func([]*device.Call) { panic("the work of a meeting") })
			}
			c.Do()
			return nil
		})
	}
	for range 20 {
		require.EqualError(t, crash(-1), "made of the work of a meeting")
	}
	for rank := range 4 { // the others wait for it
		require.EqualError(t, crash(rank), "made of a body")
	}
	for _, w := range []*World{{}, {Crash: func(int, any) error { return nil }}} { // the control: a mistake of ours goes on
		require.PanicsWithValue(t, "a mistake", func() { _ = w.attempt(0, func() error { panic("a mistake") }) })
	}
	w := World{Crash: func(int, any) error { return errors.New("made of anything") }}
	require.PanicsWithValue(t, stop{}, func() { _ = w.attempt(0, func() error { panic(stop{}) }) }, "the world's own")
}
