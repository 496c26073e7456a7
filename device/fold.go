package device

import (
	"errors"
	"fmt"
	"strconv"

	"firstbit/kernel"
	"firstbit/lowp"
	"firstbit/reduce"
)

// Fold is the named reduction of the Call's Plan, resolved for n leaves. An order that is not one for
// n leaves is reported by Device.Err, and the sum runs in sequence.
func (c *Call) Fold(name string, n int) kernel.Fold {
	r := c.Plan.Reduction(name)
	if r.MMA != "" {
		c.dev.misfit(c, r, errNoProducts)
	}
	c.told(Summed{Name: name, N: n})
	return c.fold(name, r, n)
}

func (c *Call) told(sum Summed) {
	if c.Leaves != nil {
		c.Leaves(sum)
	}
}

var errNoProducts = errors.New("is no sum of products of two tensors, which is what tensor cores add up")

// fold is a reduction resolved for n leaves.
func (c *Call) fold(name string, r reduce.Reduction, n int) kernel.Fold {
	if n > 0 && !r.Order.Fits(n) {
		c.dev.misfit(c, r, r.Order.Check(n))
		r.Order = reduce.Seq
	}
	if race := c.Race(name); race != kernel.Drawn {
		r.Order, _ = r.Order.InTurn()
		f := kernel.FoldOf(r, n)
		f.Race = race
		return f
	}
	if !r.Order.Concrete() {
		r.Order = c.Order(name, n)
	}
	return kernel.FoldOf(r, n)
}

// Race is how threads share the named sum of the Call: as the schedule says, if what the sum adds arrives and nobody watches in which order.
func (c *Call) Race(name string) kernel.Race {
	way := c.dev.schedule.Race
	if way == kernel.Drawn || c.Probe != nil || c.Leaves != nil || c.InOrder {
		return kernel.Drawn
	}
	r := c.Plan.Reduction(name)
	if _, ok := r.Order.InTurn(); !ok || r.Formats != (reduce.Formats{}) || r.FMA || r.MMA != "" {
		return kernel.Drawn
	}
	return way
}

// Tiles is Fold part by part, where a kernel does more with a part than add its values: a Fold for each part of the order, and one for what
// they come to. An order that has no parts is one.
func (c *Call) Tiles(name string, n int) (tiles []kernel.Tile, join kernel.Fold) {
	r := c.Plan.Reduction(name)
	if f := c.Fold(name, n); !r.Order.Fits(n) || f.N == 0 { // which is reported
		return []kernel.Tile{{Stride: 1, Fold: f}}, kernel.FoldOf(reduce.Reduction{Formats: r.Formats}, 1)
	}
	parts, by := c.Order(name, n).Tiles(n)
	for _, p := range parts {
		r.Order = p.Order
		tiles = append(tiles, kernel.Tile{Start: p.Start, Stride: p.Stride, Fold: kernel.FoldOf(r, p.Count)})
	}
	r.Order = by
	return tiles, kernel.FoldOf(r, len(parts))
}

// Operands are the formats of two inputs that meet as they are.
func (c *Call) Operands(a, b string) lowp.Operands {
	return lowp.Operands{A: c.Input(a).Format, B: c.Input(b).Format}
}

// Products is Fold for n products of elements in these formats, which a plan may have added up by tensor cores. Those of fp64, a width
// that exists for references, are added one by one.
func (c *Call) Products(name string, n int, o lowp.Operands) kernel.Fold {
	r := c.Plan.Reduction(name)
	f := c.fold(name, r, n)
	if r.MMA == "" || o.A == lowp.FP64 {
		c.told(Summed{Name: name, N: n, Products: true, Of: o})
		return f
	}
	mma, err := lowp.MMAOf(r.MMA, o, r.Acc)
	if err == nil && !f.Running() {
		err = errors.New("adds values by no running sum, to which tensor cores add products")
	}
	if err == nil && mma.Block > 0 && !f.Blocks(mma.Block) {
		err = fmt.Errorf("cuts blocks of %d products under one scale: its chains must begin where blocks do, and run along them", mma.Block)
	}
	if err != nil {
		c.dev.misfit(c, r, err)
		return f
	}
	f.MMA = mma
	c.told(Summed{Name: name, N: n, Products: true, Of: o, AtOnce: mma.Terms})
	return f
}

// FoldRuns is Fold for sums of runs of the leaves, which follow one another: see reduce.Order.Over.
func (c *Call) FoldRuns(name string, runs []reduce.Run) kernel.Fold {
	r := c.Plan.Reduction(name)
	r.Order = r.Order.Over(runs)
	c.told(Summed{Name: name, N: len(runs)})
	return c.fold(name, r, len(runs))
}

// FoldAt is Fold for a place in a message: where an order depends on that, it is resolved. What arrives does so part by part.
func (c *Call) FoldAt(name string, n int, at reduce.Context) kernel.Fold {
	r := c.Plan.Reduction(name)
	if r.MMA != "" {
		c.dev.misfit(c, r, errNoProducts)
	}
	c.told(Summed{Name: name, N: n})
	at.Arrival = func(n int) []int {
		if at.Part > 0 {
			return c.Arrival(name+"."+strconv.Itoa(at.Part), n)
		}
		return c.Arrival(name, n)
	}
	r.Order = r.Order.Resolve(at, n)
	if !r.Order.Fits(n) {
		c.dev.misfit(c, r, r.Order.Check(n))
		r.Order = reduce.Seq
	}
	return kernel.FoldOf(r, n)
}

// misfit keeps the first reduction that cannot be what the Call has to add: kernels have no errors, and
// only they know how many leaves there are, and of what.
func (r *rank) misfit(c *Call, sum reduce.Reduction, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("plan for %s (%s): %.80s: %w", c.ID.Path, c.Kernel.Name, sum, err)
	}
}

// Err is the first Plan that did not fit what its Call had to add.
func (d *Device) Err() error { return d.err }

// Width makes a Kernel's Run of its two instantiations: float64 when any
// tensor of the Call is fp64, else float32.
func Width(run32, run64 func(*Call)) func(*Call) {
	return func(c *Call) {
		if wide(c.Out) || wide(c.In) {
			run64(c)
			return
		}
		run32(c)
	}
}

func wide(args []Arg) bool {
	for i := range args {
		if args[i].f64 != nil {
			return true
		}
	}
	return false
}
