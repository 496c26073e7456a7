package optim

import "firstbit/device"

// GatherMasters gives every rank the masters of all shards of the buckets in which a weight is quantised: what is quantised is the
// full-precision source, not what travels.
func (d *Distributed) GatherMasters(dev *device.Device) {
	for _, b := range d.Buckets {
		if b.group.Size() > 1 && b.quantised() {
			d.gatherMasters(dev, b)
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

func (d *Distributed) gatherMasters(dev *device.Device, b *Bucket) {
	c := dev.Open(b.label+".pack", packKernel)
	for _, s := range b.Segments {
		c.Read(s.Param.Name, s.Master)
	}
	mine := c.Write("bucket", b.Params[0].Master.Format, b.hi-b.lo)
	c.Do()
	all := b.group.AllGather(dev, b.label, mine, b.n)

	c = dev.Open(b.label+".unpack", unpackKernel)
	c.Read("bucket", all)
	for _, p := range b.Params {
		c.Update(p.Name, p.Master)
	}
	c.Do()
}
