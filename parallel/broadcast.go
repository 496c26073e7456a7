package parallel

import "firstbit/device"

var broadcast = &device.Kernel{Name: "broadcast", In: device.Names("x?"), Scalars: device.Names("ranks nodes root"), Out: device.Names("x")}

// Broadcast makes every member's x that of the root, in place. Only the root's is read.
//
// Shapes: x (…).
func (m Member) Broadcast(dev *device.Device, label string, root int, x *device.Tensor) {
	if m.Size() == 1 {
		return
	}
	c := m.open(dev, label, broadcast)
	c.ReadScalar("root", float64(root))
	if m.Index == root {
		c.Read("x", x)
	}
	c.Update("x", x)
	c.Body = func(c *device.Call) {
		m.meet(c, func(calls []*device.Call) { hand(calls, root) })
	}
	c.Do()
}
