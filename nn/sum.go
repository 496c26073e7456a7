package nn

import (
	"firstbit/device"
	"firstbit/libm"
)

var addKernel = &device.Kernel{Name: "add", ByToken: true, In: device.Names("a b"), Out: device.Names("y"), Run: device.Width(runAdd[float32], runAdd[float64])}

// Sum is y = a + b, element by element, in that order.
func Sum(d *device.Device, label string, a, b *device.Tensor) *device.Tensor {
	c := d.Open(label, addKernel)
	c.Read("a", a)
	c.Read("b", b)
	y := c.Write("y", a.Format, a.Shape()...)
	c.Do()
	return y
}

func runAdd[T libm.Float](c *device.Call) {
	Add(device.Out[T](c, "y"), device.In[T](c, "a"), device.In[T](c, "b"))
}
