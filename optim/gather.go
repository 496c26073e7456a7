package optim

import "firstbit/device"

var castKernel = &device.Kernel{Name: "cast", Run: func(c *device.Call) { c.Out[0].CopyFrom(c.In[0].Tensor) }}

// Gather makes the weights of the masters again, as every Step ends. A restore ends with it.
func (a *AdamW) Gather(dev *device.Device) {
	for _, p := range a.Params {
		cast(dev, p.Name, p.Master, p.W)
	}
}

// Gather is AdamW.Gather over all ranks, each of which has masters of its own.
func (d *Distributed) Gather(dev *device.Device) {
	for _, b := range d.Buckets {
		for _, s := range b.Segments {
			cast(dev, s.Param.Name, s.Master, s.w)
		}
		d.gather(dev, b)
	}
}

// cast rounds a master to its weight, unless they are one.
func cast(dev *device.Device, name string, master, w *device.Tensor) {
	if w == master {
		return
	}
	c := dev.Open(name+".cast", castKernel)
	c.Read("master", master)
	c.Update("w", w)
	c.Do()
}
