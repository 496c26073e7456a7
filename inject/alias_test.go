package inject

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

var writesY = &device.Kernel{Name: "fill", Out: device.Names("y")}

// Two Calls whose outputs lie in one memory overwrite each other's; a longer one makes room and takes along what is there. Another Call,
// another rank and another step keep to themselves.
func TestAliasSharesMemory(t *testing.T) {
	after := func(fault string, f lowp.Format, lengths ...int) (first []float64, changed int, err error) {
		parsed, err := Parse(fault)
		require.NoError(t, err)
		dev := device.New(device.Options{}, (&Injector{Faults: []*Fault{parsed}}).Memory)
		dev.At(3, 0, device.Bwd)
		var made []*device.Tensor
		for i, label := range []string{"one", "two"}[:len(lengths)] {
			c := dev.In("a").Open(label, writesY)
			made = append(made, c.Write("y", []lowp.Format{lowp.FP32, f}[i], lengths[i]))
			c.Body = func(c *device.Call) {
				for j := range min(2, c.Out[0].Len()) {
					c.Out[0].Set(j, float64(10*i+j+1))
				}
			}
			c.Do()
		}
		for j := range made[0].Len() {
			first = append(first, made[0].Value(j))
		}
		return first, changes(parsed), parsed.Err()
	}
	for _, c := range []struct {
		fault   string
		lengths []int
		want    []float64
		changed int
	}{
		{"alias@a.one with=a.two", []int{3, 2}, []float64{11, 12, 0}, 1},
		{"alias@a.one with=a.two", []int{3, 5}, []float64{11, 12, 0}, 1},
		{"alias@a.one with=a.two", []int{3, 1}, []float64{11, 2, 0}, 1},
		{"alias@a.* with=a.two rank=0 step=3", []int{2, 2}, []float64{11, 12}, 1},
		{"alias@a.one with=a.two", []int{2}, []float64{1, 2}, 0}, // alone in it
		{"alias@a.one with=a.three", []int{2, 2}, []float64{1, 2}, 0},
		{"alias@a.one with=a.two rank=1", []int{2, 2}, []float64{1, 2}, 0},
		{"alias@a.one with=a.two step=4", []int{2, 2}, []float64{1, 2}, 0},
	} {
		first, changed, err := after(c.fault, lowp.FP32, c.lengths...)
		require.NoError(t, err)
		require.Equal(t, c.want, first, c.fault)
		require.Equal(t, c.changed, changed, c.fault)
	}
	_, _, err := after("alias@a.one with=a.two", lowp.BF16, 2, 2)
	require.ErrorContains(t, err, "writes bf16, and fp32 lies in the memory")
	for fault, want := range map[string]string{"alias@a": "with: must be given", "alias@a with": "must be KEY=VALUE", "alias@a with=b bit=1": "unknown key",
		"alias@a with=b rank=x": "rank: "} {
		_, err := Parse(fault)
		require.ErrorContains(t, err, want)
	}
}

// After the fault's steps each output lies by itself again, with what it held.
func TestAliasEndsWithItsSteps(t *testing.T) {
	parsed, err := Parse("alias@one with=two step=1")
	require.NoError(t, err)
	dev := device.New(device.Options{}, (&Injector{Faults: []*Fault{parsed}}).Memory)
	at := func(step int, label string, set float64) *device.Tensor {
		dev.At(step, 0, device.Bwd)
		c := dev.Open(label, writesY)
		y := c.Write("y", lowp.FP32, 2)
		c.Body = func(c *device.Call) { c.Out[0].Set(0, set) }
		c.Do()
		return y
	}
	one, two := at(1, "one", 1), at(1, "two", 2)
	two.Set(1, 5)
	require.Equal(t, []float32{2, 5}, one.F32())
	at(2, "one", 3)
	require.Equal(t, []float32{3, 5}, one.F32())
	require.Equal(t, []float32{2, 5}, two.F32())
	at(2, "two", 4)
	require.Equal(t, []float32{3, 5}, one.F32())
	require.Equal(t, []float32{4, 5}, two.F32())
	require.Equal(t, 1, changes(parsed))
}

// What an output held before is what its memory holds: a Call that updates it, and is alone there, does what it always does. Which of two comes first
// makes room for itself; a longer one brings the rest of what it held.
func TestAliasKeepsWhatWasHeld(t *testing.T) {
	parsed, err := Parse("alias@short with=long")
	require.NoError(t, err)
	dev := device.New(device.Options{}, (&Injector{Faults: []*Fault{parsed}}).Memory)
	dev.At(1, 0, device.Bwd)
	update := func(label string, y *device.Tensor) {
		c := dev.Open(label, writesY)
		c.Update("y", y)
		c.Body = func(c *device.Call) { c.Out[0].Set(0, c.Out[0].Value(0)+1) }
		c.Do()
	}
	short, long := device.NewTensor(lowp.FP32, 2), device.NewTensor(lowp.FP32, 3)
	for i := range 3 {
		short.Set(min(i, 1), float64(10+min(i, 1)))
		long.Set(i, float64(20+i))
	}
	update("short", short)
	require.Equal(t, []float32{11, 11}, short.F32())
	require.Zero(t, changes(parsed))
	update("long", long)
	require.Equal(t, []float32{12, 11}, short.F32())
	require.Equal(t, []float32{12, 11, 22}, long.F32())
}
