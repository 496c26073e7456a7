package optim

import (
	"math"

	"firstbit/device"
	"firstbit/libm"
)

// Decays and WSDDecays are the values of Config.Decay and Config.WSDDecay.
var (
	Decays    = []string{"constant", "linear", "cosine", "wsd"}
	WSDDecays = []string{"linear", "cosine", "exponential", "minus_sqrt"}
)

// Schedule is the learning rate of a run, and where in it the run is. The position is the number of steps that the run has taken; one that was
// skipped is none. It is a state beside the optimizer's count of its updates: programs save and restore the two apart, and one can be lost
// without the other.
//
// Source: Megatron's OptimizerParamScheduler. That counts samples, so many for each step.
type Schedule struct {
	Config
	Steps    int            // of the run
	Position *device.Tensor // a device.Number
}

// NewSchedule is a run's of so many steps, at its beginning.
func NewSchedule(c Config, steps int) *Schedule { return &Schedule{c, steps, device.Number(0)} }

// Rate is the learning rate of the step at hand.
func (s *Schedule) Rate() float64 { return s.Config.Rate(s.Position.Number()+1, s.Steps) }

var advanceKernel = &device.Kernel{Name: "advance", In: device.Names("position"), Scalars: device.Names("by"), Out: device.Names("position"),
	Run: func(c *device.Call) {
		c.Output("position").SetNumber(c.Input("position").Number() + int64(c.Scalar("by")))
	}} // fits: it is 1

// Advance moves the position past a step that was taken.
func (s *Schedule) Advance(dev *device.Device) {
	c := dev.In("lr").Open("position", advanceKernel)
	c.Read("position", s.Position)
	c.ReadScalar("by", 1)
	c.Update("position", s.Position)
	c.Do()
}

// Rate is the learning rate of a step, counted from 1, in a run of the given length.
//
//	warmup       LR·step/Warmup
//	after it     MinLR + coeff·(LR−MinLR)
//
// With x from 0 at the end of the warmup to 1 at the last step, coeff is 1, 1−x or ½(1+cos πx). By wsd it is 1 until the last WSDSteps, over which x
// goes from 0 to 1, and then 1−x, ½(1+cos πx), 2·½ˣ−1 or 1−√x.
// Source: Megatron's OptimizerParamScheduler, get_lr.
func (c Config) Rate(step int64, steps int) float64 {
	if c.Warmup > 0 && step <= int64(c.Warmup) {
		return c.LR * float64(step) / float64(c.Warmup)
	}
	if c.Decay == "constant" || steps <= c.Warmup {
		return c.LR
	}
	begin, length, shape := c.Warmup, steps-c.Warmup, c.Decay
	if shape == "wsd" {
		begin, length, shape = steps-c.WSDSteps, c.WSDSteps, c.WSDDecay
	}
	x := min(max(float64(step-int64(begin))/float64(length), 0), 1)
	return c.MinLR + float64(coefficient(shape, x)*(c.LR-c.MinLR))
}

// coefficient is how much of the way from LR to MinLR is left where x of the decay is over.
func coefficient(shape string, x float64) float64 {
	switch shape {
	case "linear":
		return 1 - x
	case "exponential":
		return float64(2*libm.Exp(float64(-math.Ln2*x))) - 1
	case "minus_sqrt":
		return 1 - math.Sqrt(x)
	}
	return float64(0.5 * (1 + libm.Cos(float64(math.Pi*x)))) // cosine
}
