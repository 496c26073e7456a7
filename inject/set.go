package inject

import (
	"fmt"
	"math"
	"strconv"

	"firstbit/device"
)

var setKind = &kind{Name: "set", noun: "state", restores: true, Example: "set@optim.step value=1",
	does: "restores V as element I of a state, on all ranks unless R is given",
	make: func(s *Selector) (action, []field) {
		x := &set{}
		s.Phase = device.Load
		return x, []field{given(x.valued()), number("elem", "I", &x.elem, math.MaxInt32), s.rank()}
	}}

// set is a value that is written over an element of what was restored.
type set struct {
	everyCall
	value float64
	elem  int
}

func (x *set) valued() field {
	return field{key: "value", value: "V", text: func() string { return strconv.FormatFloat(x.value, 'g', -1, 64) },
		take: func(value string) (err error) {
			if x.value, err = strconv.ParseFloat(value, 64); err != nil || math.IsInf(x.value, 0) || math.IsNaN(x.value) {
				return fmt.Errorf("%q: must be a number", value)
			}
			return nil
		}}
}

func (x *set) run(f *Fault, c *device.Call, next device.Runner) {
	next(c)
	t := c.Out[0].Tensor
	if x.elem >= t.Len() {
		f.fail(c, "elem=%d: the state has %d elements", x.elem, t.Len())
		return
	}
	if v := x.value; t.I32() != nil && (v != math.Trunc(v) || v < math.MinInt32 || v > math.MaxInt32) {
		f.fail(c, "value=%g: the state holds whole numbers from %d to %d", v, math.MinInt32, math.MaxInt32)
		return
	}
	was := t.Bits(x.elem)
	t.Set(x.elem, x.value)
	f.act(t.Bits(x.elem) != was)
}
