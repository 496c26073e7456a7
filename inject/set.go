package inject

import (
	"fmt"
	"math"
	"strconv"

	"firstbit/device"
	"firstbit/tune"
)

var setKind = &kind{Name: "set", noun: "Call", state: "state", phase: tune.StepPhases, Example: "set@optim.step value=1",
	does: "writes V, which may be nan, inf or -inf, over element I of an output, N elements, S apart, or row R, as the kernel writes it, or with at=rest in memory after the Call; " +
		"where a run continues, over that of a state that it restores",
	make: func(s *Selector) (action, []field) {
		x := &set{elements: one()}
		return x, append([]field{given(x.valued()), x.output.field()}, append(x.elements.fields(), s.at())...)
	}}

// set is a value that is written over elements of an output, or of what was restored.
type set struct {
	everyCall
	output
	elements
	value float64
}

func (x *set) valued() field {
	return field{Key: tune.Key{Name: "value", Value: "V", Text: func() string { return strconv.FormatFloat(x.value, 'g', -1, 64) },
		Take: func(value string) (err error) {
			if x.value, err = strconv.ParseFloat(value, 64); err != nil {
				return fmt.Errorf("%q: must be a number, nan, inf or -inf", value)
			}
			return nil
		}}}
}

func (x *set) fit(f *Fault, c *device.Call) { x.output.of(f, c) }

func (x *set) run(f *Fault, c *device.Call, next device.Runner) {
	next(c)
	t := x.output.of(f, c)
	if t == nil {
		return
	}
	if v := x.value; t.I32() != nil && !(v == math.Trunc(v) && v >= math.MinInt32 && v <= math.MaxInt32) {
		f.fail(c, "value=%g: the %s holds whole numbers from %d to %d", v, what(c), math.MinInt32, math.MaxInt32)
		return
	}
	x.change(f, c, t, func(i int) { t.Set(i, x.value) })
}
