package parallel

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// Every member gets the root's, of any format, and members of other groups theirs; who roots elsewhere is named.
func TestBroadcast(t *testing.T) {
	for _, f := range []lowp.Format{lowp.INT32, lowp.FP32, lowp.BF16, lowp.FP64} {
		for root := range 2 {
			require.NoError(t, simulateIn(t, grid(2, 2), func(r Rank, dev *device.Device) error {
				x := device.NewTensor(f, 3)
				for i := range 3 {
					x.Set(i, float64(10*r.Index+i))
				}
				r.TP().Broadcast(dev, "y", root, x)
				for i := range 3 {
					if want := float64(10*(r.Index/2*2+root) + i); x.Value(i) != want {
						return fmt.Errorf("rank %d: %g: must be %g", r.Index, x.Value(i), want)
					}
				}
				return nil
			}))
		}
	}
	bad := func(root func(r Rank) int, n func(r Rank) int) error {
		return simulateIn(t, grid(2, 1), func(r Rank, dev *device.Device) error {
			r.TP().Broadcast(dev, "y", root(r), device.NewTensor(lowp.FP32, n(r)))
			return nil
		})
	}
	zero, own := func(Rank) int { return 0 }, func(r Rank) int { return r.Index }
	require.ErrorContains(t, bad(own, func(Rank) int { return 3 }), "root is 0 and 1")
	require.ErrorContains(t, bad(zero, func(r Rank) int { return 3 + r.Index }), "x is [3] and [4]")
}
