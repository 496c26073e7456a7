package optim

import "firstbit/device"

var castKernel = &device.Kernel{Name: "cast", In: device.Names("master"), Out: device.Names("w"),
	Run: func(c *device.Call) { c.Output("w").CopyFrom(c.Input("master")) }}

// Gather makes the weights of the masters again, as every Step ends. A restore ends with it.
func (a *AdamW) Gather(dev *device.Device) {
	for _, b := range a.Buckets {
		for _, s := range b.Segments {
			cast(dev, s.Param.Name, s.Master, s.w)
		}
		b.gather(dev, b.weights)
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

// gathered is a tensor of every parameter of a bucket, of which each rank of the group updates its shard.
type gathered struct {
	whole *device.Buffer
	shard []device.Arg
}

// gather gives every rank every shard's.
func (b *Bucket) gather(dev *device.Device, g gathered) {
	b.owners.AllGather(dev, b.label, g.shard, g.whole)
}

// GatherMasters gives every rank the masters of all shards of the buckets in which a weight is quantised: what is quantised is the
// full-precision source, not what travels.
func (a *AdamW) GatherMasters(dev *device.Device) {
	for _, b := range a.Buckets {
		if b.quantised() {
			b.gather(dev, b.masters)
		}
	}
}

func (b *Bucket) quantised() bool {
	for _, p := range b.Params {
		if p.Quant != nil {
			return true
		}
	}
	return false
}
