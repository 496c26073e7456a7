package optim

import (
	"fmt"
	"math"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/parallel"
)

// LossScaleConfig is how the scale of the loss moves. Scales are powers of two, so that multiplying and dividing by one rounds nothing in fp32.
type LossScaleConfig struct {
	Initial        float64 `json:"initial"`         //
	Min            float64 `json:"min"`             // no scale is below it
	GrowthInterval int     `json:"growth_interval"` // steps in a row without an overflow, after which it doubles
	Hysteresis     int     `json:"hysteresis"`      // overflows since it last grew, from which on each halves it
}

// DefaultLossScale has Megatron's constants but for the first scale, which is there 2³², so that a run begins with some skipped steps.
var DefaultLossScale = LossScaleConfig{Initial: 1 << 16, Min: 1, GrowthInterval: 1000, Hysteresis: 2}

// The scale grows and backs off by these factors.
const (
	growthFactor  = 2
	backoffFactor = 0.5
)

// Changed is the first field that is not the default, and its value there; empty: all are.
func (c LossScaleConfig) Changed() (field string, v, is any) {
	d := DefaultLossScale
	switch {
	case c.Initial != d.Initial:
		return "initial", c.Initial, d.Initial
	case c.Min != d.Min:
		return "min", c.Min, d.Min
	case c.GrowthInterval != d.GrowthInterval:
		return "growth_interval", c.GrowthInterval, d.GrowthInterval
	case c.Hysteresis != d.Hysteresis:
		return "hysteresis", c.Hysteresis, d.Hysteresis
	}
	return "", nil, nil
}

func (c LossScaleConfig) validate() error {
	for _, f := range []struct {
		field   string
		ok      bool
		v       any
		allowed string
	}{
		{"initial", scaleOf(c.Initial), c.Initial, "a power of two up to 2^126"},
		{"min", scaleOf(c.Min) && c.Min <= c.Initial, c.Min, "a power of two up to optim.loss_scale.initial"},
		{"growth_interval", c.GrowthInterval >= 1 && c.GrowthInterval <= math.MaxInt32, c.GrowthInterval, "1 or more"},
		{"hysteresis", c.Hysteresis >= 1 && c.Hysteresis <= math.MaxInt32, c.Hysteresis, "1 or more"},
	} {
		if !f.ok {
			return fmt.Errorf("optim.loss_scale.%s: %v: must be %s", f.field, f.v, f.allowed)
		}
	}
	return nil
}

// scaleOf tells whether a number can be a scale: it and its reciprocal are normal numbers of fp32 without a fraction.
func scaleOf(x float64) bool {
	m, e := math.Frexp(x)
	return m == 0.5 && e <= 127 && e >= -125
}

// LossScale is the dynamic scale of the loss. In fp16 small gradients would vanish, so the backward begins with a gradient of the loss
// that is scale instead of one, and the gradients of weights are divided by it again. Where one of them is NaN or infinite the step is skipped
// on every rank.
//
//	overflow:  growth = 0; hysteresis -= 1; if hysteresis ≤ 0: scale = max(scale/2, min)
//	else:      growth += 1; if growth = interval: growth = 0; hysteresis = Hysteresis; scale = 2·scale
//
// Source: Megatron's DynamicGradScaler; unlike there, a scale that would leave fp32 stays, as in PyTorch's GradScaler.
type LossScale struct {
	LossScaleConfig
	Scale      *device.Tensor // (1), fp32
	Growth     *device.Tensor // (1), int32: steps without an overflow since the scale last moved or one overflowed
	Hysteresis *device.Tensor // (1), int32: overflows that are left until it backs off

	// Found is 1 where a rank found an overflow in the last step, else 0.
	Found *device.Tensor
	sums  []device.Arg // of the step at hand
}

// NewLossScale is that of a run at its beginning.
func NewLossScale(c LossScaleConfig) *LossScale {
	s := &LossScale{LossScaleConfig: c, Scale: device.NewTensor(lowp.FP32, 1), Growth: device.NewTensor(lowp.INT32, 1), Hysteresis: device.NewTensor(lowp.INT32, 1)}
	s.Scale.Set(0, c.Initial)
	s.Hysteresis.Set(0, float64(c.Hysteresis))
	return s
}

var (
	lossGradient = &device.Kernel{Name: "loss_gradient", In: device.Names("scale"), Out: device.Names("grad"),
		Run: func(c *device.Call) { c.Output("grad").CopyFrom(c.Input("scale")) }}
	unscaleKernel = &device.Kernel{Name: "unscale", In: device.Names("scale *"), Out: device.Names("found_inf *"), Run: runUnscale}
	updateScale   = &device.Kernel{Name: "update_scale", In: device.Names("found_inf scale growth_tracker hysteresis_tracker"),
		Scalars: device.Names("growth_interval hysteresis min"), Out: device.Names("scale growth_tracker hysteresis_tracker"), Run: runUpdateScale}
)

// Gradient is that of the loss, with which the backward of a step begins, one element.
func (s *LossScale) Gradient(dev *device.Device) *device.Tensor {
	c := dev.In("loss_scale").Open("grad", lossGradient)
	c.Read("scale", s.Scale)
	grad := c.Write("grad", lowp.FP32, 1)
	c.Do()
	return grad
}

// unscale divides the gradients by the scale, where they lie, and tells whether no rank has one that is NaN or infinite. The scale moves on.
func (s *LossScale) unscale(dev *device.Device, buckets []*Bucket, all parallel.Member) bool {
	dev = dev.In("loss_scale")
	c := dev.Open("unscale", unscaleKernel)
	c.Read("scale", s.Scale)
	found := c.Write("found_inf", lowp.FP32, 1)
	s.sums = sums(s.sums[:0], buckets)
	for _, x := range s.sums {
		c.Read(x.Name, x.Tensor)
		c.Update(x.Name, x.Tensor)
	}
	c.Do()
	s.Found = all.Largest(dev, "found_inf", found)

	c = dev.Open("update", updateScale)
	c.Read("found_inf", s.Found)
	c.Read("scale", s.Scale)
	c.Read("growth_tracker", s.Growth)
	c.Read("hysteresis_tracker", s.Hysteresis)
	c.ReadScalar("growth_interval", float64(s.GrowthInterval))
	c.ReadScalar("hysteresis", float64(s.LossScaleConfig.Hysteresis))
	c.ReadScalar("min", s.Min)
	c.Update("scale", s.Scale)
	c.Update("growth_tracker", s.Growth)
	c.Update("hysteresis_tracker", s.Hysteresis)
	c.Do()
	return s.Found.Value(0) == 0
}

func runUnscale(c *device.Call) {
	inverse, found := 1/c.Input("scale").F32()[0], c.Output("found_inf").F32()
	found[0] = 0
	for _, grad := range c.Outputs("*") {
		g := grad.F32()
		if !lowp.Finite(g) {
			found[0] = 1
		}
		for i := range g {
			g[i] *= inverse
		}
	}
}

func runUpdateScale(c *device.Call) {
	scale, growth, hysteresis := c.Output("scale").F32(), c.Output("growth_tracker").I32(), c.Output("hysteresis_tracker").I32()
	if c.Input("found_inf").F32()[0] > 0 {
		growth[0] = 0
		hysteresis[0]--
		if hysteresis[0] <= 0 {
			scale[0] = max(scale[0]*backoffFactor, float32(c.Scalar("min")))
		}
		return
	}
	growth[0]++
	if float64(growth[0]) == c.Scalar("growth_interval") {
		growth[0], hysteresis[0] = 0, int32(c.Scalar("hysteresis")) // fits: the configuration bounds it
		if larger := scale[0] * growthFactor; !math.IsInf(float64(larger), 0) {
			scale[0] = larger
		}
	}
}
