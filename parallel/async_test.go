package parallel

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
)

// inFlight starts a reduce-scatter and an all-to-all on every rank and returns what their destinations held before the wait, and after.
func inFlight(t *testing.T, ranks int, schedule uint64) (before, after [][]float32) {
	t.Helper()
	w := NewWorld(Layout{DP: ranks}, 4)
	before, after = make([][]float32, ranks), make([][]float32, ranks)
	require.NoError(t, w.Run(func(r Rank) error {
		dev := device.New(device.Options{Rank: r.Index, At: w.At(r.Index), Schedule: device.Schedule{Seed: schedule}})
		for step := range 2 {
			dev.At(step, 0, device.Opt)
			x, rows := device.NewTensor(lowp.FP32, 8*ranks), device.NewTensor(lowp.FP32, ranks, 3)
			for i := range x.F32() {
				x.F32()[i] = float32(step+1) / float32(i+r.Index+3)
			}
			for i := range rows.F32() {
				rows.F32()[i] = float32(step+1)*100 + float32(10*r.Index+i)
			}
			one := make([]int, ranks)
			for i := range one {
				one[i] = 1
			}
			sum := r.DP().StartReduceScatter(dev, "sum", alone(x))
			sent := r.DP().StartAllToAll(dev, "sent", rows, counts(one...), counts(one...))
			for _, p := range []*Pending{sum, sent} {
				before[r.Index] = append(before[r.Index], p.y.F32()...)
			}
			for _, p := range []*Pending{sent, sum} { // in whatever order
				p.Wait()
			}
			for _, p := range []*Pending{sum, sent} {
				after[r.Index] = append(after[r.Index], p.y.F32()...)
			}
			require.Equal(t, r.DP().ReduceScatter(dev, "sum.now", alone(x)).F32(), sum.y.F32())
			require.Equal(t, r.DP().AllToAll(dev, "sent.now", rows, counts(one...), counts(one...)).F32(), sent.y.F32())
		}
		return nil
	}))
	return before, after
}

// A destination is what the synchronous collective brings once it was waited for. Before, it holds what the Schedule lets arrive, and the
// same under the same one: code that reads early reads other bits under another.
func TestPendingIsUnsafeUntilWaitedFor(t *testing.T) {
	before, after := inFlight(t, 4, 1)
	for range 3 {
		b, a := inFlight(t, 4, 1)
		require.Equal(t, before, b)
		require.Equal(t, after, a)
	}
	b, a := inFlight(t, 4, 2)
	require.NotEqual(t, before, b)
	require.Equal(t, after, a)
	require.NotEqual(t, before, after)
	b, a = inFlight(t, 1, 1)
	require.Equal(t, b, a, "alone there is nothing to wait for")
}

// What is in flight is flagged, and nothing else; a wait shows the plan by which its collective added.
func TestWhatIsInFlightIsFlagged(t *testing.T) {
	flags, plans := map[string]device.Flags{}, map[string]string{}
	watch := func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Label == "sum" {
				plan, err := c.Plan.With(reduce.MustPlan("ranks:reverse/fp32"))
				require.NoError(t, err)
				c.Plan = plan
			}
			next(c)
			if c.ID.At.DP == 0 {
				flags[c.Label], plans[c.Label] = c.Flags, c.Plan.String()
			}
		}
	}
	require.NoError(t, simulate(t, 2, 4, func(r Rank, dev *device.Device) error {
		for step := range 2 { // Calls are used again
			dev.At(step+1, 0, device.Opt)
			x := device.NewTensor(lowp.FP32, 2)
			p := r.DP().StartReduceScatter(dev, "sum", alone(x))
			if r.Index == 1 {
				r.DP().Send(dev, "to", 0, x)
			} else {
				r.DP().Post(dev, "to", 1, lowp.FP32, 2)()
			}
			p.Wait()
			r.DP().ReduceScatter(dev, "now", alone(x))
		}
		return nil
	}, watch))
	require.Equal(t, map[string]device.Flags{"sum": device.AsyncPending, "sum.wait": 0, "to.recv.post": device.AsyncPending, "to.recv": 0, "now": 0}, flags)
	require.Contains(t, plans["sum"], "ranks:reverse")
	require.Equal(t, plans["sum"], plans["sum.wait"])
}
