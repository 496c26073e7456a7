package inject

import (
	"fmt"
	"math"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/spell"
)

var flipKind = &kind{Name: "flip", noun: "Call", Example: "flip@layers.2.moe.router.logits rank=0 step=3 elem=17 bit=0",
	does: "flips bit B of element I of an output, as the kernel writes it, or with at=rest in memory after the Call",
	make: func(s *Selector) (action, []field) {
		f := &flip{}
		s.Rank, s.Micro, s.Phase = 0, 0, device.Fwd
		return f, []field{s.step(), s.rank(), s.micro(), s.phase(), word("out", "NAME", &f.out), number("elem", "I", &f.elem, math.MaxInt32), number("bit", "B", &f.bit, 63), s.at()}
	}}

// flip is one bit of an output.
type flip struct {
	everyCall
	out       string // its name; empty: the first
	elem, bit int
}

// output is what the flip acts on; nil: the Call has no such output, or none so wide.
func (x *flip) output(f *Fault, c *device.Call) *device.Tensor {
	var names []string
	for i, out := range c.Out {
		names = append(names, out.Name)
		if (x.out != "" || i > 0) && out.Name != x.out {
			continue
		}
		if bits := out.Format.Bits(); x.bit >= bits {
			f.fail(c, "bit=%d: must be from 0 to %d: output %s is %s", x.bit, bits-1, out.Name, out.Format)
			return nil
		}
		return out.Tensor
	}
	if len(names) == 0 {
		f.fail(c, "has no output")
	} else {
		f.fail(c, "has no output %q: %s", x.out, spell.OneOf(x.out, names))
	}
	return nil
}

func (x *flip) fit(f *Fault, c *device.Call) { x.output(f, c) }

func (x *flip) run(f *Fault, c *device.Call, next device.Runner) {
	next(c)
	t := x.output(f, c)
	if t == nil {
		return
	}
	if x.elem >= t.Len() {
		f.fail(c, "elem=%d: the output has %d elements", x.elem, t.Len())
		return
	}
	was := t.Bits(x.elem)
	switch {
	case t.F32() != nil:
		v := &t.F32()[x.elem]
		*v = t.Format.Decode(t.Format.Encode(*v) ^ 1<<x.bit)
	case t.Format == lowp.FP64:
		v := &t.F64()[x.elem]
		*v = math.Float64frombits(lowp.Bits(*v) ^ 1<<x.bit)
	default:
		t.I32()[x.elem] ^= 1 << x.bit
	}
	f.act(t.Bits(x.elem) != was) // a NaN may stay one
}

// check refuses a bit that no format of the run has.
func (x *flip) check(r Run, loads bool) error {
	if widest := r.Widest.Bits(); !loads && x.bit >= widest {
		return fmt.Errorf("bit: %d: must be from 0 to %d: no format of precision %s is wider", x.bit, widest-1, r.Precision)
	}
	return nil
}
