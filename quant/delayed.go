package quant

import (
	"firstbit/device"
	"firstbit/lowp"
)

// Delayed is the scale of an operand by the amaxes of earlier steps. History and Scale are state of training; Amax is what this step
// has seen so far.
//
// Source: TransformerEngine's delayed scaling, by the largest of the history, without a margin.
type Delayed struct {
	Name                 string
	History, Scale, Amax *device.Tensor

	label string
	scale *device.Kernel // of the next step
}

func newDelayed(name string, history int, scale *device.Kernel) *Delayed {
	d := &Delayed{Name: name, History: device.NewTensor(lowp.FP32, history), Scale: device.NewTensor(lowp.FP32, 1), Amax: device.NewTensor(lowp.FP32, 1),
		label: name + ".scale", scale: scale}
	d.Scale.F32()[0] = 1
	return d
}

var (
	amaxKernel        = &device.Kernel{Name: "amax", In: device.Names("x amax?"), Out: device.Names("amax"), Run: runAmax}
	amaxPack          = &device.Kernel{Name: "amax.pack", In: device.Names("*"), Out: device.Names("amax"), Run: runAmaxPack}
	amaxUnpack        = &device.Kernel{Name: "amax.unpack", In: device.Names("amax"), Out: device.Names("*"), Run: runAmaxUnpack}
	scaleIn, scaleOut = device.Names("amax history scale"), device.Names("history scale amax")
	delayedE4M3       = &device.Kernel{Name: "delayed_scale.e4m3", In: scaleIn, Out: scaleOut, Run: func(c *device.Call) { runDelayedScale(c, lowp.E4M3) }}
	delayedE5M2       = &device.Kernel{Name: "delayed_scale.e5m2", In: scaleIn, Out: scaleOut, Run: func(c *device.Call) { runDelayedScale(c, lowp.E5M2) }}
)

// countAmax counts x in; a weight, of which there is one a step, is all there is to count.
func countAmax(d *device.Device, label string, x *device.Tensor, to *Delayed, weight bool) {
	c := d.Open(label, amaxKernel)
	c.Read("x", x)
	if !weight {
		c.Read("amax", to.Amax)
	}
	c.Update("amax", to.Amax)
	c.Do()
}

func runAmax(c *device.Call) {
	amax := lowp.AbsMax(c.Input("x").F32())
	if seen := c.Input("amax"); seen != nil {
		amax = max(amax, seen.F32()[0])
	}
	c.Output("amax").F32()[0] = amax
}

// UpdateScales ends a step: largest takes the amaxes to the largest that any rank saw, histories move on, and scales are those of
// the next step.
func UpdateScales(d *device.Device, all []*Delayed, largest func(*device.Device, *device.Tensor) *device.Tensor) {
	c := d.Open("amax.pack", amaxPack)
	for _, x := range all {
		c.Read(x.Name, x.Amax)
	}
	seen := c.Write("amax", lowp.FP32, len(all))
	c.Do()
	c = d.Open("amax.unpack", amaxUnpack)
	c.Read("amax", largest(d, seen))
	for _, x := range all {
		c.Update(x.Name, x.Amax)
	}
	c.Do()
	for _, x := range all {
		c := d.Open(x.label, x.scale)
		c.Read("amax", x.Amax)
		c.Read("history", x.History)
		c.Read("scale", x.Scale)
		c.Update("history", x.History)
		c.Update("scale", x.Scale)
		c.Update("amax", x.Amax)
		c.Do()
	}
}

func runAmaxPack(c *device.Call) {
	all := c.Output("amax").F32()
	for i, amax := range c.Inputs("*") {
		all[i] = amax.F32()[0]
	}
}

func runAmaxUnpack(c *device.Call) {
	all := c.Input("amax").F32()
	for i, amax := range c.Outputs("*") {
		amax.F32()[0] = all[i]
	}
}

func runDelayedScale(c *device.Call, f lowp.Format) {
	history, scale, amax := c.Output("history").F32(), c.Output("scale").F32(), c.Output("amax").F32()
	history[0] = amax[0]
	if scale[0], _ = delayedScale(f, history, scale[0], false, 0); c.Plan.Has("scale") && power(c) {
		scale[0] = floorPower(scale[0])
	}
	amax[0] = 0
}
