package inject

import (
	"bytes"
	"strings"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
)

// What a quantiser of weights reads in place of the master: programs that rebuild copies after a restore have read the weight as it is in
// bf16, or what a copy stands for.
const (
	rounded     = "bf16"
	dequantised = "dequantised"
)

// rebuild has a quantiser of a weight read another source than the master.
func (f *Fault) rebuild(c *device.Call, next device.Runner) {
	master := read(c, "x")
	if master == nil || master.Format != lowp.FP32 || len(c.Out) < 2 || c.Out[0].Name != "packed" {
		f.fail(c, "is no quantiser of a weight")
		next(c)
		return
	}
	next(c)
	want := written(c)
	var source *device.Tensor
	if f.source == rounded {
		source = device.NewTensor(lowp.BF16, master.Shape()...)
		source.CopyFrom(master)
	} else {
		source = copyOf(c).Dequantised(along(c.Kernel))
	}
	c.In[0].Tensor = source
	next(c)
	c.In[0].Tensor = master
	f.act(!bytes.Equal(want, written(c)))
}

// written is the bytes of all that a Call wrote.
func written(c *device.Call) (b []byte) {
	for _, out := range c.Out {
		b = out.Bytes(b)
	}
	return b
}

func copyOf(c *device.Call) nn.Packed {
	p := nn.Packed{Codes: c.Out[0].Tensor, Scales: c.Out[1].Tensor}
	if len(c.Out) > 2 {
		p.Global = c.Out[2].Tensor
	}
	return p
}

// along is which way a quantiser's blocks lie.
func along(k *device.Kernel) nn.Along {
	switch {
	case strings.HasSuffix(k.Name, ".columns"):
		return nn.AlongColumns
	case strings.HasSuffix(k.Name, ".square"):
		return nn.OfWeight
	}
	return nn.AlongRows
}
