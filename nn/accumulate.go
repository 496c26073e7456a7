package nn

import (
	"firstbit/device"
	"firstbit/libm"
)

// Accumulate adds the gradient of one use in one microbatch to the parameter's:
// the first of a step is copied, those that follow are added in call order. A Param whose uses are
// kept apart has one gradient for each.
//
// A steady gradient that is added to once a step is computed where the parameter's lies from the third step on, and the copy is none: in a
// simulation of many ranks that is a pass over the gradients of each.
func Accumulate(d *device.Device, label string, p *Param, dw *device.Tensor) {
	if p.Join != nil {
		dw = p.Join(d, label, dw)
	}
	if p.Apart {
		count(d, label, p, p.use(d), 0, dw)
		return
	}
	if p.once && p.adds == 1 {
		panic("nn: " + p.Name + ": its gradient is added to again, and was computed in its place")
	}
	c := d.Open(label, accumulate)
	c.Read("dw", dw)
	if p.adds > 0 {
		c.Read("grad", p.Grad)
	}
	c.Update("grad", p.Grad)
	p.adds++
	c.Do()
	if p.once && dw.Format == p.Grad.Format && !dw.LiesIn(p.Grad, 0) {
		dw.Alias(p.Grad)
	}
	if p.Added != nil {
		p.Added()
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
