package inject

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/tune"
)

var flipKind = &kind{Name: "flip", noun: "Call", phase: tune.StepPhases, Example: "flip@layers.2.moe.router.logits rank=0 step=3 elem=17 bit=0",
	does: "flips bit B, or those of a mask, of element I of an output, or forces them to 0 or 1, as the kernel writes it, or with at=rest in memory after the Call; N elements, S apart, or row R; " +
		"phase fwd, microbatch 0 and rank 0 unless others are given",
	make: func(s *Selector) (action, []field) {
		f := &flip{elements: one(), stuck: tune.Every}
		s.First, s.Micro, s.Phase = true, 0, device.Fwd
		fields := append([]field{f.output.field()}, f.elements.fields()...)
		return f, append(fields, number("bit", "B", &f.bit, 0, 63), f.masked(), number("stuck", "0|1", &f.stuck, 0, 1), s.at())
	}}

// flip is bits of an output.
type flip struct {
	everyCall
	output
	elements
	bit   int
	mask  uint64 // several bits; 0: the one
	stuck int    // what they are forced to; or Every: they are flipped
}

func (x *flip) masked() field {
	return field{Key: tune.Key{Name: "mask", Value: "HEX",
		Text: func() string {
			if x.mask == 0 {
				return ""
			}
			return strconv.FormatUint(x.mask, 16)
		},
		Take: func(value string) (err error) {
			if x.mask, err = strconv.ParseUint(value, 16, 64); err != nil || x.mask == 0 {
				return fmt.Errorf("%q: must be bits in hexadecimal, such as ff00", value)
			}
			return nil
		}}}
}

func (x *flip) finish(*Fault) error {
	if x.mask != 0 && x.bit != 0 {
		return errors.New("mask: has all the bits: name mask or bit")
	}
	return nil
}

// bits are those that the flip changes.
func (x *flip) bits() uint64 {
	if x.mask != 0 {
		return x.mask
	}
	return 1 << x.bit
}

// wide says what is wrong with the bits for values of so many; empty: nothing.
func (x *flip) wide(width int) string {
	switch {
	case bits.Len64(x.bits()) <= width:
		return ""
	case x.mask != 0:
		return fmt.Sprintf("mask=%x: must be of bits from 0 to %d", x.mask, width-1)
	}
	return fmt.Sprintf("bit=%d: must be from 0 to %d", x.bit, width-1)
}

// written is the output; nil: the Call has no such one, or none so wide.
func (x *flip) written(f *Fault, c *device.Call) *device.Tensor {
	t := x.output.of(f, c)
	if t == nil {
		return nil
	}
	if why := x.wide(t.Format.Bits()); why != "" {
		name := x.name
		if name == "" {
			name = c.Out[0].Name
		}
		f.fail(c, "%s: output %s is %s", why, name, t.Format)
		return nil
	}
	return t
}

func (x *flip) fit(f *Fault, c *device.Call) { x.written(f, c) }

func (x *flip) run(f *Fault, c *device.Call, next device.Runner) {
	next(c)
	t := x.written(f, c)
	if t == nil {
		return
	}
	x.change(f, c, t, func(i int) {
		switch {
		case t.F32() != nil:
			v := &t.F32()[i]
			*v = t.Format.Decode(uint32(x.turned(uint64(t.Format.Encode(*v))))) // fits: the bits are within the format
		case t.Format == lowp.FP64:
			v := &t.F64()[i]
			*v = math.Float64frombits(x.turned(lowp.Bits(*v)))
		default:
			v := &t.I32()[i]
			*v = int32(uint32(x.turned(uint64(uint32(*v))))) // fits, as above
		}
	})
}

// turned is a value's bits as the fault leaves them.
func (x *flip) turned(b uint64) uint64 {
	switch x.stuck {
	case 0:
		return b &^ x.bits()
	case 1:
		return b | x.bits()
	}
	return b ^ x.bits()
}

// check refuses a bit that no format of the run has.
func (x *flip) check(r Run, loads bool) error {
	if widest := r.Widest.Bits(); !loads && x.wide(widest) != "" {
		if x.mask != 0 {
			return fmt.Errorf("mask: %x: must be of bits from 0 to %d: no format of precision %s is wider", x.mask, widest-1, r.Precision)
		}
		return fmt.Errorf("bit: %d: must be from 0 to %d: no format of precision %s is wider", x.bit, widest-1, r.Precision)
	}
	return nil
}
