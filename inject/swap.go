package inject

import (
	"fmt"

	"firstbit/device"
	"firstbit/tune"
)

var swapKind = &kind{Name: "swap", noun: "Call", phase: tune.StepPhases, Example: "swap@layers.2.moe.router.topk a=3 b=4 step=2",
	does: "two rows of an output change places, as where an index is wrong; rows are what the first extent counts",
	make: func(*Selector) (action, []field) {
		x := &swap{a: -1, b: -1} // no row, so that the first one is printed too
		return x, []field{given(number("a", "I", &x.a, 0, tune.Most)), given(number("b", "I", &x.b, 0, tune.Most)), x.output.field()}
	}}

// swap is two rows of an output, each in the other's place.
type swap struct {
	everyCall
	output
	a, b int
}

func (x *swap) fit(f *Fault, c *device.Call) { x.output.of(f, c) }

func (x *swap) run(f *Fault, c *device.Call, next device.Runner) {
	next(c)
	t := x.output.of(f, c)
	if t == nil {
		return
	}
	rows, width := rowsOf(t)
	if max(x.a, x.b) >= rows {
		f.fail(c, "%s", fmt.Sprintf("a=%d b=%d: the output has rows from 0 to %d", x.a, x.b, rows-1))
		return
	}
	was := same(t)
	t.CopyAt(x.a*width, was.View(x.b*width, (x.b+1)*width))
	t.CopyAt(x.b*width, was.View(x.a*width, (x.a+1)*width))
	f.act(!equal(t, was))
}
