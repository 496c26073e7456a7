package inject

import (
	"bytes"
	"strings"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/quant"
	"firstbit/tune"
)

var rebuildKind = &kind{Name: "rebuild", noun: "quantiser of a weight", begins: true, phase: tune.EveryPhase, Example: "rebuild@quant.layers.1.attn.* step=3 source=bf16",
	does: "copies of weights are quantised from the weight rounded to bf16, or from what a copy stands for; those of initialisation and restores too",
	make: func(*Selector) (action, []field) {
		r := &rebuild{}
		return r, []field{given(choice("source", &r.source, rounded, dequantised))}
	}}

// rebuild is a copy of a weight that is made of another source than the master, as programs have done after a restore.
type rebuild struct{ source string }

// The sources.
const (
	rounded     = "bf16"
	dequantised = "dequantised"
)

func (*rebuild) on(c *device.Call) bool {
	x := named(c.In, "x")
	return x != nil && x.Format == lowp.FP32 && named(c.Out, "packed") != nil
}

func (r *rebuild) run(f *Fault, c *device.Call, next device.Runner) {
	next(c) // for what would be there, which nobody sees
	c.Launches--
	master, want := c.Input("x"), written(c)
	var source *device.Tensor
	if r.source == rounded {
		source = device.NewTensor(lowp.BF16, master.Shape()...)
		source.CopyFrom(master)
	} else {
		source = copyOf(c).Dequantised(along(c.Kernel))
	}
	device.Swap(c.In, "x", source)
	next(c)
	device.Swap(c.In, "x", master)
	f.act(!bytes.Equal(want, written(c)))
}

// written is the bytes of all that a Call wrote.
func written(c *device.Call) (b []byte) {
	for _, out := range c.Out {
		b = append(b, out.Bytes(nil)...)
	}
	return b
}

func copyOf(c *device.Call) quant.Packed {
	return quant.Packed{Codes: named(c.Out, "packed"), Scales: named(c.Out, "scales"), Global: named(c.Out, "global")}
}

// along is which way a quantiser's blocks lie.
func along(k *device.Kernel) quant.Along {
	switch {
	case strings.HasSuffix(k.Name, ".columns"):
		return quant.AlongColumns
	case strings.HasSuffix(k.Name, ".square"):
		return quant.OfWeight
	}
	return quant.AlongRows
}
