package nn

import (
	"firstbit/device"
	"firstbit/libm"
)

// Accumulate adds the gradient of one use in one microbatch to the parameter's, in the one of three ways that the parameter has: in call
// order, in place, or counted by use.
func Accumulate(d *device.Device, label string, p *Param, dw *device.Tensor) {
	if p.Join != nil {
		dw = p.Join(d, label, dw)
	}
	switch {
	case p.Apart:
		countByUse(d, label, p, p.use(d), 0, dw)
		return
	case p.inPlace:
		accumulateInPlace(d, label, p, dw)
	default:
		accumulateInOrder(d, label, p, dw)
	}
	if p.Added != nil {
		p.Added()
	}
}

// accumulateInOrder copies the first gradient of a step and adds those that follow, in call order.
func accumulateInOrder(d *device.Device, label string, p *Param, dw *device.Tensor) {
	c := d.Open(label, accumulate)
	c.Weight = &p.Place
	c.Read("dw", dw)
	if p.adds > 0 {
		c.Read("grad", p.Grad)
	}
	c.Update("grad", p.Grad)
	p.adds++
	c.Do()
}

// accumulateInPlace has a steady gradient that is added to once a step computed where the parameter's lies, from the third step on. The
// copy is then none: in a simulation of many ranks that is a pass over the gradients of each.
func accumulateInPlace(d *device.Device, label string, p *Param, dw *device.Tensor) {
	if p.adds == 1 {
		panic("nn: " + p.Name + ": its gradient is added to again, and was computed in its place")
	}
	accumulateInOrder(d, label, p, dw)
	if dw.Format == p.Grad.Format && !dw.LiesIn(p.Grad, 0) {
		dw.Alias(p.Grad)
	}
}

func runAccumulate[T libm.Float](c *device.Call) {
	grad, dw := device.Out[T](c, "grad"), device.In[T](c, "dw")
	switch {
	case c.Has("grad"):
		Add(grad, grad, dw)
	case !c.Input("dw").LiesIn(c.Output("grad"), 0):
		copy(grad, dw)
	}
}
