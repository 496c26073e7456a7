package parity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
)

// The orders of addition move bits, and no tensor out of its bounds: whatever a GPU's user gets,
// and other chunks of the state-space scan, of which the last is cut short.
func TestParityByOtherPlans(t *testing.T) {
	for _, p := range []struct {
		name   string
		choose func(*device.Call)
	}{
		{"fast", func(c *device.Call) {
			if !c.Kernel.Fast.Empty() {
				c.Plan = c.Kernel.Fast
			}
		}},
		{"chunk=1", chunks(t, 1)},
		{"chunk=7", chunks(t, 7)},
		{"chunk=64", chunks(t, 64)},
	} {
		seen := 0
		for _, r := range references {
			chosen := 0
			middleware := func(next device.Runner) device.Runner {
				return func(c *device.Call) {
					fixed := c.Plan
					p.choose(c)
					if !c.Plan.Equal(fixed) {
						chosen++
					}
					next(c)
				}
			}
			want := r.want(t)
			wide := worst(compare(t, r.got(t, r.open(t, lowp.FP64), middleware), want))
			narrow := worst(compare(t, r.got(t, r.open(t, lowp.FP32), middleware), want))
			if chosen == 0 { // the model has no such layer
				continue
			}
			seen++
			t.Logf("%s by %s, %d Calls: fp64 %.1e (%s), fp32 %.1e (%s)", r.name, p.name, chosen, wide.err, wide.name, narrow.err, narrow.name)
			require.LessOrEqual(t, wide.err, within64)
			if p.name == "fast" { // a long chunk's exp(a_t − a_s) takes the difference of large sums
				require.LessOrEqual(t, narrow.err, within32)
			}
		}
		t.Logf("%s: seen %d times", p.name, seen)
	}
}

// chunks sets the chunk of whatever kernel has one.
func chunks(t *testing.T, n int) func(*device.Call) {
	item, err := reduce.ParsePlan(fmt.Sprintf("chunk=%d", n))
	require.NoError(t, err)
	return func(c *device.Call) {
		if c.Kernel.Name == "ssd" || c.Kernel.Name == "ssd.bwd" {
			c.Plan, err = c.Plan.With(item)
			require.NoError(t, err)
		}
	}
}
