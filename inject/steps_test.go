package inject

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// steps is what a few Calls leave after each of three steps, of two microbatches each: in every microbatch
//
//	x = 100·step + 10·micro + (0, 1, 2, 3)
//	y = x + 0.5
//	sum = sum + y, which it reads
//	late = y, which nothing reads before the next microbatch writes y
type steps struct{ x, y, sum, late [][]float64 }

var (
	xKernel    = &device.Kernel{Name: "x", Out: device.Names("x")}
	yKernel    = &device.Kernel{Name: "y", In: device.Names("x"), Out: device.Names("y")}
	sumKernel  = &device.Kernel{Name: "sum", In: device.Names("y sum"), Out: device.Names("sum")}
	readKernel = &device.Kernel{Name: "read", In: device.Names("y")}
)

// broken takes the steps with a fault, of a run that does not continue.
func broken(t *testing.T, fault string) (s steps, f *Fault) {
	t.Helper()
	f, err := Parse(fault)
	require.NoError(t, err, fault)
	f.Settle(false)
	i := &Injector{Faults: []*Fault{f}}
	var read []float64
	dev := device.New(device.Options{Schedule: device.Schedule{Seed: 3}}, i.Memory, func(next device.Runner) device.Runner {
		return func(c *device.Call) { // where a trace would be
			if c.Label == "late" {
				read = values(c.Input("y"))
			}
			next(c)
		}
	}, i.Middleware)
	sum := device.NewTensor(lowp.FP32, 4)
	for step := 1; step <= 3; step++ {
		for micro := range 2 {
			dev.At(step, micro, device.Fwd)
			x := s.call(dev, "x", xKernel, nil, func(j int) float64 { return float64(100*step + 10*micro + j) })
			y := s.call(dev, "y", yKernel, x, func(j int) float64 { return x.Value(j) + 0.5 })
			c := dev.Open("sum", sumKernel)
			c.Read("y", y)
			c.Read("sum", sum)
			c.Update("sum", sum)
			c.Body = func(c *device.Call) {
				for j := range 4 {
					c.Output("sum").Set(j, c.Input("sum").Value(j)+c.Input("y").Value(j))
				}
			}
			c.Do()
			c = dev.Open("late", readKernel)
			c.Read("y", y)
			c.Do()
			s.x, s.y, s.sum, s.late = append(s.x, values(x)), append(s.y, values(y)), append(s.sum, values(sum)), append(s.late, read)
		}
		c := dev.OpenKind(device.Metric, "end", readKernel)
		c.Read("y", sum)
		c.Do()
		s.late[len(s.late)-1] = read
	}
	return s, f
}

// call runs a Call that writes four elements.
func (s *steps) call(dev *device.Device, label string, k *device.Kernel, x *device.Tensor, value func(j int) float64) *device.Tensor {
	c := dev.Open(label, k)
	if x != nil {
		c.Read("x", x)
	}
	y := c.Write(label, lowp.FP32, 4)
	c.Body = func(c *device.Call) {
		for j := range 4 {
			c.Out[0].Set(j, value(j))
		}
	}
	c.Do()
	return y
}

func values(t *device.Tensor) (v []float64) {
	for j := range t.Len() {
		v = append(v, t.Value(j))
	}
	return v
}

// Faults of no kind act on what is not selected.
func TestFaultsElsewhereChangeNothing(t *testing.T) {
	healthy, _ := broken(t, "flip@nothing")
	require.Equal(t, []float64{210.5, 211.5, 212.5, 213.5}, healthy.y[3])
	for _, kind := range []string{"flip@%", "set@% value=7", "drop@%", "unwritten@% rows=1", "repeat@%", "early@y", "late@late", "alias@x with=y", "copy@% from-step=1"} {
		for _, at := range []string{" step=4", " micro=2", " phase=bwd", " rank=1", " tp=1", " dp=1", " pp=1", " cp=1", " ep=1"} {
			for _, call := range []string{"y", "sum"} {
				fault := replace(kind, call) + at
				s, f := broken(t, fault)
				require.Equal(t, healthy, s, fault)
				require.Zero(t, changes(f), fault)
				require.NoError(t, f.Err(), fault)
			}
		}
	}
}

func replace(kind, call string) string {
	for i := range kind {
		if kind[i] == '%' {
			return kind[:i] + call + kind[i+1:]
		}
	}
	return kind
}
