package inject

import (
	"fmt"
	"strings"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/tune"
)

var castKind = &kind{Name: "cast", noun: "Call", phase: tune.StepPhases, Example: "cast@layers.1.attn.wq to=fp32",
	does: "an output is of another format, fp32, bf16 or fp16, whose values it then has: what computes with it goes on in that",
	make: func(*Selector) (action, []field) {
		x := &cast{}
		to := field{Key: tune.Key{Name: "to", Value: "FORMAT", Text: func() string { return x.text }, Take: func(value string) (err error) {
			x.text = strings.ToLower(value)
			if x.to, err = lowp.Parse(x.text); err != nil || x.to != lowp.FP32 && x.to != lowp.BF16 && x.to != lowp.FP16 {
				return fmt.Errorf("%q: must be fp32, bf16 or fp16", value)
			}
			return nil
		}}}
		return x, []field{given(to), x.output.field()}
	}}

// cast is an output of another format than it should have.
type cast struct {
	everyCall
	output
	text string
	to   lowp.Format
}

func (x *cast) fit(f *Fault, c *device.Call) { x.output.of(f, c) }

func (x *cast) run(f *Fault, c *device.Call, next device.Runner) {
	next(c)
	t := x.output.of(f, c)
	if t == nil {
		return
	}
	if t.Format != lowp.FP32 && t.Format != lowp.BF16 && t.Format != lowp.FP16 {
		f.fail(c, "writes %s: must be fp32, bf16 or fp16", t.Format)
		return
	}
	was := t.Format
	t.Format = x.to
	t.Format.RoundSlice(t.F32())
	f.act(was != x.to)
}
