package parallel

import (
	"fmt"
	"testing"

	"firstbit/device"
)

// One collective of a bucket's size over all ranks of a world, by algorithm; and one of nothing, which is the meeting.
func BenchmarkCollectives(b *testing.B) {
	const n = 1 << 14
	gather := func(m Member, dev *device.Device, x *device.Tensor) {
		lo, hi := Shard(n, m.Size(), m.Index)
		gather(m, dev, "y", x.View(lo, hi), n)
	}
	add := func(m Member, dev *device.Device, x *device.Tensor) { m.AllReduce(dev, "y", x) }
	scatter := func(m Member, dev *device.Device, x *device.Tensor) { m.ReduceScatter(dev, "y", alone(x)) }
	for _, c := range []struct {
		name, plan string
		n          int
		do         func(m Member, dev *device.Device, x *device.Tensor)
	}{
		{"meeting", "ranks:seq", 1, add}, {"all_gather", "", n, gather}, {"all_reduce", "ranks:ring", n, add},
		{"reduce_scatter", "ranks:ring", n, scatter}, {"reduce_scatter permuted", "ranks:ring; ring=2", n, scatter},
		{"reduce_scatter tree", "ranks:nccltree; channels=4", n, scatter}, {"reduce_scatter arrival", "ranks:arrival", n, scatter},
	} {
		for _, ranks := range []int{8, 512, 2432} {
			b.Run(fmt.Sprintf("%s/%d", c.name, ranks), func(b *testing.B) {
				w := NewWorld(Layout{DP: ranks}, 8)
				err := w.Run(func(r Rank) error {
					dev := device.New(device.Options{Rank: r.Index, At: w.At(r.Index)}, planned(c.plan))
					x := vector(c.n)
					for step := range b.N + 1 {
						dev.At(step, 0, device.Opt)
						c.do(r.DP(), dev, x)
						if step == 0 && r.Index == 0 { // the first cuts the message and allocates
							b.ResetTimer()
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*ranks), "ns/member")
			})
		}
	}
}
