package run

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/train"
)

// poison fills what a Call is about to write, and does not say that it reads, with NaN.
func poison(next device.Runner) device.Runner {
	return func(c *device.Call) {
		if c.Kind != device.Module && c.Kind != device.State && c.Kind != device.Loading && c.Flags&device.AsyncPending == 0 {
			for _, out := range c.Out {
				if !read(c, out.Tensor) {
					fill(out.Tensor)
				}
			}
		}
		next(c)
	}
}

func read(c *device.Call, t *device.Tensor) bool {
	lo, hi := t.Span()
	for _, in := range c.In {
		if a, b := in.Span(); a < hi && lo < b {
			return true
		}
	}
	return false
}

func fill(t *device.Tensor) {
	for i := range t.F32() {
		t.F32()[i] = float32(math.NaN())
	}
	for i := range t.F64() {
		t.F64()[i] = math.NaN()
	}
	for i := range t.I32() {
		t.I32()[i] = math.MinInt32
	}
}

// Whatever a Call's output keeps of before is an input that it declares: a run in which all other outputs are poisoned before each Call has
// the same bits. Else a run that continues would differ where nothing says why.
func TestOutputsKeepOnlyWhatIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing here is concurrent that other tests are not")
	}
	for _, c := range []struct {
		layout string
		change func(*train.Config)
	}{
		{"", func(c *train.Config) { c.Micro, c.Model.Dropout, c.Model.Recompute = 2, 0.1, true }},
		{"pp=2,vpp=2", func(c *train.Config) { c.Micro = 2 }},
		{"dp=2,tp=2,pp=2,ep=2", func(c *train.Config) { c.Micro, c.Cluster.Overlap = 2, true }},
		{"cp=2,tp=2", nil},
		{"tp=2,etp=2", nil},
		{"dp=2", func(c *train.Config) { c.Precision = "nvfp4" }},
		{"dp=2,tp=2", func(c *train.Config) { c.Precision, c.Optim.LossScale.Initial, c.Steps = "fp16", 1<<21, 3 }}, // of which some are skipped
		{"tp=2", func(c *train.Config) { c.Precision, c.Quant.Scaling = "fp8", "delayed" }},
	} {
		t.Run(c.layout, func(t *testing.T) {
			s := Spec{Config: train.Tiny(), Kept: Kept{Digest: true}}
			s.Config.Steps = 2
			if c.layout != "" {
				var err error
				s.Layout, err = parallel.ParseLayout(c.layout)
				require.NoError(t, err)
			}
			if c.change != nil {
				c.change(&s.Config)
			}
			want, err := Run(s)
			require.NoError(t, err)
			s.Watch = func(int) device.Middleware { return poison }
			j := &job{Spec: &s}
			got, err := j.run()
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(want.Steps), fmt.Sprint(got.Steps)) // as text, in which NaN is itself
		})
	}
}
