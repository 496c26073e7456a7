package inject

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// What a Call updates accumulates by itself, other numbers are added to what is there, and whole numbers are written again.
func TestRepeatAddsUp(t *testing.T) {
	healthy, _ := broken(t, "flip@nothing")
	s, f := broken(t, "repeat@y n=2 step=2 micro=1")
	require.Equal(t, []float64{3 * 210.5, 3 * 211.5, 3 * 212.5, 3 * 213.5}, s.y[3])
	require.Equal(t, healthy.y[4], s.y[4])
	require.Equal(t, 1, changes(f))
	s, f = broken(t, "repeat@sum micro=0 step=1")
	require.Equal(t, []float64{201, 203, 205, 207}, s.sum[0])
	require.Equal(t, 1, changes(f))
	_, f = broken(t, "repeat@late")
	require.Zero(t, changes(f))

	f, err := Parse("repeat@count")
	require.NoError(t, err)
	dev := device.New(device.Options{}, (&Injector{Faults: []*Fault{f}}).Middleware)
	dev.At(1, 0, device.Fwd)
	c := dev.Open("count", &device.Kernel{Name: "count", Out: device.Names("n"), Run: func(c *device.Call) { c.Out[0].Set(0, 5) }})
	y := c.Write("n", lowp.INT32, 1)
	c.Do()
	require.Equal(t, 5.0, y.Value(0))
	acted, changed := f.Counts()
	require.Equal(t, []int{1, 0}, []int{acted, changed})
}
