package inject

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// Two Calls whose outputs lie in one memory overwrite each other's; a longer one makes room and takes along what is there. Another Call,
// another rank and another step keep to themselves.
func TestAliasSharesMemory(t *testing.T) {
	after := func(fault string, f lowp.Format, lengths ...int) (first []float64, changed int, err error) {
		parsed, err := Parse(fault)
		require.NoError(t, err)
		dev := device.New(device.Options{}, Injector{Faults: []*Fault{parsed}}.Middleware)
		dev.At(3, 0, device.Bwd)
		var made []*device.Tensor
		for i, label := range []string{"one", "two"}[:len(lengths)] {
			c := dev.In("a").Open(label, &device.Kernel{Name: "fill"})
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
		return first, parsed.Changed(), parsed.Err()
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
	for fault, want := range map[string]string{"alias@a": "with: must be a GLOB", "alias@a with": "must be key=value", "alias@a with=b bit=1": "unknown key",
		"alias@a with=b rank=x": "rank: "} {
		_, err := Parse(fault)
		require.ErrorContains(t, err, want)
	}
}
