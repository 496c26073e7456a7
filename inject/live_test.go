package inject

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/rng"
	"firstbit/train"
)

// A recomputation from the live stream draws what the next forward would have drawn, and shifts what follows.
func TestLiveDrawsWhatComesNext(t *testing.T) {
	run := func(rec bool, faults ...*Fault) (masks [][]float32) {
		dev := device.New(device.Options{}, (&Injector{Faults: faults}).Middleware, func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				next(c)
				if c.Kind == device.Draw {
					masks = append(masks, append([]float32{}, c.Out[0].F32()...))
				}
			}
		})
		s, x := nn.NewStream("dropout.tp"), device.NewTensor(lowp.FP32, 3, 5)
		s.Seed(rng.New(7, "dropout.tp"))
		mask := nn.Dropout(s, 0.4)
		for micro := range 2 {
			dev.At(1, micro, device.Fwd)
			mask.Forward(dev, x)
			if rec {
				dev.Enter(device.Rec)
				mask.Forward(dev, x)
			}
		}
		return masks
	}
	live := func(text string) *Fault {
		f, err := Parse(text)
		require.NoError(t, err)
		return f
	}
	plain, again := run(false), run(true)
	require.Equal(t, [][]float32{plain[0], plain[0], plain[1], plain[1]}, again)
	f := live("live@dropout.mask")
	shifted := run(true, f)
	require.Equal(t, plain, shifted[:2], "the recomputation draws what was to come")
	require.NotContains(t, plain, shifted[2])
	require.NotContains(t, plain, shifted[3])
	require.Equal(t, 2, changes(f))
	for _, text := range []string{"live@dropout", "live@dropout.mask step=2", "live@dropout.mask rank=1"} {
		f := live(text)
		require.Equal(t, again, run(true, f), text)
		require.Zero(t, changes(f))
	}
}

// Each recomputation shows it, of the blocks and of the depths.
func TestLiveRecomputationsAreNotTheForward(t *testing.T) {
	differs := func(streams string, faults ...*Fault) (differ, all int) {
		c := train.Pico()
		c.Streams = streams
		c.Model.Dropout, c.Model.Recompute, c.Batch = 0.2, true, 1
		tr := newRun(t, c, (&Injector{Faults: faults}).Middleware, func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				next(c)
				if c.Kind == device.Recompute {
					if all++; string(c.In[0].Bytes(nil)) != string(c.Out[0].Bytes(nil)) {
						differ++
					}
				}
			}
		})
		tr.Step()
		return differ, all
	}
	n, _ := differs("rank")
	require.Zero(t, n)
	f, err := Parse("live@*.dropout.mask")
	require.NoError(t, err)
	n, all := differs("rank", f)
	require.Equal(t, all, n)
	require.Positive(t, n)

	n, _ = differs("indexed", f)
	require.Zero(t, n)
	require.ErrorContains(t, f.Err(), "dropout.mask: draws from no state that the forward kept")
}
