package inject

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// A Call that is late reads, in parts, what was written to its inputs meanwhile. Who needs what it writes has it run first.
func TestLateReadsWhatWasWrittenMeanwhile(t *testing.T) {
	healthy, _ := broken(t, "flip@nothing")
	s, f := broken(t, "late@late step=2 micro=0")
	require.Equal(t, healthy.y, s.y, "the memory is as it was")
	late := 0
	for j, y := range s.late[3] { // it ran at the step's end
		if y == healthy.y[3][j] {
			late++
		} else {
			require.Equal(t, healthy.y[2][j], y)
		}
	}
	require.Positive(t, late, "%v", s.late)
	require.Equal(t, 1, changes(f))

	s, f = broken(t, "late@y") // which is read at once
	require.Equal(t, healthy, s)
	acted, changed := f.Counts()
	require.Equal(t, []int{6, 0}, []int{acted, changed})
	s, f = broken(t, "late@sum micro=0 step=1") // the next one updates it
	require.Equal(t, healthy.y, s.y)
	require.NotEqual(t, healthy.sum[1], s.sum[1], "it added the second y")
	require.Equal(t, 1, changes(f))

	f, err := Parse("late@all")
	require.NoError(t, err)
	dev := device.New(device.Options{}, (&Injector{Faults: []*Fault{f}}).Memory)
	dev.At(1, 0, device.Opt)
	c := dev.OpenKind(device.Collective, "all", &device.Kernel{Name: "all_reduce", Out: device.Names("y")})
	c.Write("y", lowp.FP32, 1)
	c.Do()
	require.ErrorContains(t, f.Err(), "is a collective or a message")
}
