package nn

import (
	"firstbit/device"
	"firstbit/libm"
)

// Accumulator is a mode of accumulating the gradients that a Param's uses have in the microbatches of a step: *InOrder or *ByUse.
type Accumulator interface {
	add(d *device.Device, label string, p *Param, dw *device.Tensor)
	restart()
}

// Accumulate adds the gradient of one use in one microbatch to the parameter's, in the mode of its Accumulator.
func Accumulate(d *device.Device, label string, p *Param, dw *device.Tensor) {
	if p.Join != nil {
		dw = p.Join(d, label, dw)
	}
	p.Accumulator.add(d, label, p, dw)
	p.heard()
}

// heard tells who waits for it that the gradient was added to.
func (p *Param) heard() {
	if p.Added != nil {
		p.Added()
	}
}

// InOrder adds to Grad in call order.
type InOrder struct {
	// Steady promises that there are as many gradients in every step as in the first. Where that is one, it is computed in place from the
	// third step on.
	Steady bool

	adds    int // of this step
	inPlace bool
}

func (o *InOrder) restart() { o.inPlace, o.adds = o.Steady && o.adds == 1, 0 }

func (o *InOrder) add(d *device.Device, label string, p *Param, dw *device.Tensor) {
	if !o.inPlace {
		o.addTo(d, label, p, dw)
		return
	}
	if o.adds == 1 {
		panic("nn: " + p.Name + ": its gradient is added to again, and was computed in its place")
	}
	o.addTo(d, label, p, dw)
	// The next is computed where Grad lies, so that its copy is none: in a simulation of many ranks that is a pass over the gradients of each.
	if dw.Format == p.Grad.Format && !dw.LiesIn(p.Grad, 0) {
		dw.Alias(p.Grad)
	}
}

// addTo copies the first gradient of a step and adds those that follow.
func (o *InOrder) addTo(d *device.Device, label string, p *Param, dw *device.Tensor) {
	c := d.Open(label, accumulate)
	c.Weight = &p.Place
	c.Read("dw", dw)
	if o.adds > 0 {
		c.Read("grad", p.Grad)
	}
	c.Update("grad", p.Grad)
	o.adds++
	c.Do()
}

var accumulate = &device.Kernel{Name: "accumulate", In: device.Names("dw grad?"), Out: device.Names("grad"),
	Run: device.Width(runAccumulate[float32], runAccumulate[float64])}

func runAccumulate[T libm.Float](c *device.Call) {
	grad, dw := device.Out[T](c, "grad"), device.In[T](c, "dw")
	switch {
	case c.Has("grad"):
		Add(grad, grad, dw)
	case !c.Input("dw").LiesIn(c.Output("grad"), 0):
		copy(grad, dw)
	}
}
