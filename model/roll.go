package model

import (
	"firstbit/device"
	"firstbit/lowp"
)

var rollKernel = &device.Kernel{Name: "roll", In: device.Names("tokens targets starts?"), Scalars: device.Names("by"), Out: device.Names("ids labels"),
	Run: runRoll}

// roll shifts the tokens and targets of every sequence, or of every document, by a number of steps. What comes in at
// the end is token 0 without a target.
//
// Shapes: tokens, targets, starts (B,T) or nil → ids, labels (B,T).
// Source: Megatron Core's roll_tensor.
func roll(dev *device.Device, tokens, targets, starts *device.Tensor, by int) (ids, labels *device.Tensor) {
	c := dev.Open("roll", rollKernel)
	c.Read("tokens", tokens)
	c.Read("targets", targets)
	c.ReadIf("starts", starts)
	c.ReadScalar("by", float64(by))
	ids = c.Write("ids", lowp.INT32, tokens.Shape()...)
	labels = c.Write("labels", lowp.INT32, targets.Shape()...)
	c.Do()
	return ids, labels
}

func runRoll(c *device.Call) {
	by, t := int(c.Scalar("by")), c.Input("tokens").Cols()
	tokens, targets, ids, labels := c.Input("tokens").I32(), c.Input("targets").I32(), c.Output("ids").I32(), c.Output("labels").I32()
	var starts []int32
	if s := c.Input("starts"); s != nil {
		starts = s.I32()
	}
	for i := range ids {
		ids[i], labels[i] = 0, -1
		if i%t+by < t && (starts == nil || starts[i+by] == starts[i]) {
			ids[i], labels[i] = tokens[i+by], targets[i+by]
		}
	}
}

var contextKernel = &device.Kernel{Name: "slice", In: device.Names("x"), Scalars: device.Names("part"), Out: device.Names("y"), Run: runContext}

// context is the rank's steps of every sequence.
//
// Shapes: x (B,T) → y (B,T/cp).
func (m *Model) context(dev *device.Device, label string, x *device.Tensor) *device.Tensor {
	cp := m.rank.CP()
	if cp.Size() == 1 {
		return x
	}
	c := dev.Open(label, contextKernel)
	c.Read("x", x)
	c.ReadScalar("part", float64(cp.Index))
	y := c.Write("y", lowp.INT32, x.Dim(0), x.Dim(1)/cp.Size())
	c.Do()
	return y
}

func runContext(c *device.Call) {
	x, y := c.Input("x"), c.Output("y")
	t, part := x.Cols(), y.Cols()
	from := int(c.Scalar("part")) * part
	for b := range x.Rows() {
		copy(y.I32()[b*part:][:part], x.I32()[b*t+from:])
	}
}
