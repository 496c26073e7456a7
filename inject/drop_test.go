package inject

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/parallel"
)

// What a Call does not write is what it wrote last, zero before; what it updates stays as it is.
func TestDropLeavesWhatWasWrittenLast(t *testing.T) {
	healthy, _ := broken(t, "flip@nothing")
	s, f := broken(t, "drop@y step=2 micro=1")
	require.Equal(t, healthy.y[2], s.y[3], "the microbatch before")
	require.Equal(t, healthy.y[4], s.y[4])
	require.Equal(t, 1, changes(f))
	s, f = broken(t, "drop@y step=2-")
	for _, y := range s.y[2:] {
		require.Equal(t, healthy.y[1], y, "what was not written is not what was written last")
	}
	require.Equal(t, 4, changes(f))
	s, f = broken(t, "drop@y step=1")
	require.Equal(t, [][]float64{{0, 0, 0, 0}, {0, 0, 0, 0}}, s.y[:2])
	require.Equal(t, healthy.y[2:], s.y[2:])
	require.Equal(t, 2, changes(f))
	s, f = broken(t, "drop@sum micro=1 step=2")
	require.Equal(t, s.sum[2], s.sum[3])
	require.Equal(t, healthy.sum[2], s.sum[2])
	require.Equal(t, 1, changes(f))
	_, f = broken(t, "drop@late")
	acted, changed := f.Counts()
	require.Equal(t, []int{6, 0}, []int{acted, changed}, "it writes nothing")
}

// A rank that is missing in a collective has the result that the others have: of a sum without its part. Where all are missing an all-reduce
// leaves what was brought, and the others what they wrote last.
func TestDroppedPartOfACollective(t *testing.T) {
	type result [2][2][]float64 // by rank and step
	run := func(fault string, do func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor) (got result, changed int) {
		layout := parallel.Layout{DP: 2}.Full()
		world := parallel.NewWorld(layout, 2)
		var mu sync.Mutex
		require.NoError(t, world.Run(func(r parallel.Rank) error {
			f, err := Parse(fault)
			if err != nil {
				return err
			}
			i := &Injector{Rank: r.Index, At: layout.At(r.Index), Ranks: []device.Coord{layout.At(0), layout.At(1)}, Groups: world.Groups(), Faults: []*Fault{f}}
			dev := device.New(device.Options{Rank: r.Index, At: i.At}, i.Memory, i.Middleware)
			x := device.NewTensor(lowp.FP32, 4)
			for step := range 2 {
				dev.At(step+1, 0, device.Opt)
				for j := range 4 {
					x.Set(j, float64(100*step+10*(r.Index+1)+j))
				}
				got[r.Index][step] = values(do(r.DP(), dev, x))
			}
			mu.Lock()
			defer mu.Unlock()
			changed += changes(f)
			return f.Err()
		}))
		return got, changed
	}
	reduce := func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor {
		return m.AllReduce(dev, "all", x)
	}
	scatter := func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor {
		b := device.NewBuffer(lowp.FP32, 4)
		b.Hold(0, "x", x)
		return m.ReduceScatter(dev, "all", b)
	}
	pending := func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor {
		b := device.NewBuffer(lowp.FP32, 4)
		b.Hold(0, "x", x)
		return m.StartReduceScatter(dev, "all", b).Wait()
	}
	gather := func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor {
		return m.Gather(dev, "all", x.View(0, 1), 1)
	}
	cast := func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor {
		m.Broadcast(dev, "all", 0, x)
		return x
	}
	largest := func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor {
		return m.Largest(dev, "all", x)
	}
	counts := func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor {
		n := device.NewTensor(lowp.INT32, x.Len())
		for i := range n.I32() {
			n.I32()[i] = int32(x.Value(i))
		}
		m.SumCounts(dev, "all", n)
		return n
	}
	send := func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor {
		if m.Index == 0 {
			m.Send(dev, "all", 1, x)
			return x
		}
		return m.Recv(dev, "all", 0, lowp.FP32, 4)
	}
	for _, c := range []struct {
		fault   string
		do      func(m parallel.Member, dev *device.Device, x *device.Tensor) *device.Tensor
		want    [2][]float64 // by rank, after the second step
		changed int
	}{
		{"drop@all step=3", reduce, [2][]float64{{230, 232, 234, 236}, {230, 232, 234, 236}}, 0},
		{"drop@all step=2 dp=1", reduce, [2][]float64{{110, 111, 112, 113}, {110, 111, 112, 113}}, 1},
		{"drop@all step=2 rank=0", reduce, [2][]float64{{120, 121, 122, 123}, {120, 121, 122, 123}}, 1},
		{"drop@all step=2", reduce, [2][]float64{{110, 111, 112, 113}, {120, 121, 122, 123}}, 2},
		{"drop@all step=2 tp=0", largest, [2][]float64{{110, 111, 112, 113}, {120, 121, 122, 123}}, 1},
		{"drop@all step=2 rank=1", largest, [2][]float64{{110, 111, 112, 113}, {110, 111, 112, 113}}, 1},
		{"drop@all step=2 rank=0", counts, [2][]float64{{120, 121, 122, 123}, {120, 121, 122, 123}}, 1},
		{"drop@all step=2 rank=1", counts, [2][]float64{{110, 111, 112, 113}, {110, 111, 112, 113}}, 1},
		{"drop@all step=2", counts, [2][]float64{{110, 111, 112, 113}, {120, 121, 122, 123}}, 2},
		{"drop@all step=3", scatter, [2][]float64{{230, 232}, {234, 236}}, 0},
		{"drop@all step=2 rank=1", scatter, [2][]float64{{110, 111}, {112, 113}}, 1},
		{"drop@all step=2", scatter, [2][]float64{{30, 32}, {34, 36}}, 2},
		{"drop@all step=2 rank=1", pending, [2][]float64{{110, 111}, {112, 113}}, 1},
		{"drop@all step=2", pending, [2][]float64{{30, 32}, {34, 36}}, 2},
		{"drop@all.wait step=2", pending, [2][]float64{{230, 232}, {234, 236}}, 0},
		{"drop@all.wait step=2 rank=0", pending, [2][]float64{{230, 232}, {234, 236}}, 0},
		{"drop@all step=2 rank=0", gather, [2][]float64{{0, 120}, {0, 120}}, 1},
		{"drop@all step=2", gather, [2][]float64{{10, 20}, {10, 20}}, 2},
		{"drop@all step=2 rank=0", cast, [2][]float64{{0, 0, 0, 0}, {0, 0, 0, 0}}, 1},
		{"drop@all step=2 rank=1", cast, [2][]float64{{110, 111, 112, 113}, {110, 111, 112, 113}}, 0},
		{"drop@all.send step=2", send, [2][]float64{{110, 111, 112, 113}, {0, 0, 0, 0}}, 1},
		{"drop@all.recv step=2", send, [2][]float64{{110, 111, 112, 113}, {10, 11, 12, 13}}, 1},
	} {
		got, changed := run(c.fault, c.do)
		require.Equal(t, c.want, [2][]float64{got[0][1], got[1][1]}, c.fault)
		require.Equal(t, c.changed, changed, c.fault)
	}
}

// A part of a sum that is missing is −0, not 0, which would change a sum of −0.
func TestMissingPartOfASumIsNegativeZero(t *testing.T) {
	for name, bits := range map[string]string{"all_reduce": "80000000", "all_gather": "00000000"} {
		x := device.NewTensor(lowp.FP32, 1)
		x.Set(0, 3)
		dev := device.New(device.Options{})
		c := dev.OpenKind(device.Collective, name, &device.Kernel{Name: name, In: device.Names("x")})
		c.Read("x", x)
		require.True(t, absent(c, func(c *device.Call) { require.Equal(t, bits, c.Input("x").Bits(0)) }))
		require.Equal(t, 3.0, c.Input("x").Value(0))
	}
}
