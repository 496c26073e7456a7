package moe

import (
	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/reduce"
)

func runGroupedDProb[T libm.Float](c *device.Call) {
	dy, w2, h, prob, offsets := c.Input("dy"), c.Input("w2"), c.Input("h"), c.Input("prob"), c.Input("offsets").I32()
	dh, dprob := device.Out[T](c, "dx"), device.Out[T](c, "dprob")
	f, d := h.Cols(), dy.Cols()
	// dh first holds the product; the epilogue replaces each element after its last use.
	groupedMatMul(dh, device.Data[T](dy), device.Data[T](w2), offsets, d, f, true, c.Products("k", d, c.Operands("dy", "w2")))
	dprobEpilogue(c, dprob, dh, h, prob, offsets, f)
}

// dprobEpilogue makes dh and dprob of a product that lies in dh.
func dprobEpilogue[T libm.Float](c *device.Call, dprob, dh []T, h, prob *device.Tensor, offsets []int32, f int) {
	tiling := tiling{M: int(c.Scalar("tile_m")), N: int(c.Scalar("tile_n")), Sub: int(c.Scalar("tile_sub")), Grid: c.Plan.Int("grid")}
	tiles := tiling.Tiles(offsets, f)
	n := func(n int) kernel.Fold { return c.Fold("n", n) }
	if way := c.Race("tiles"); way != kernel.Drawn && len(tiles) > 1 {
		race := dprobRace[T]{dprob: dprob, dh: dh, acc: dh, h: device.Data[T](h), p: device.Data[T](prob), cols: f,
			tiling: tiling, tiles: tiles, dynamic: c.Plan.Choice("sched") == "dynamic", way: way}
		race.run(n)
		return
	}
	var dispatch []int
	switch c.Plan.Choice("sched") {
	case "dynamic":
		dispatch = c.Arrival("sched", len(tiles))
	case "each": // a CTA for each tile, so none is walked from its end
		tiling.Grid = max(len(tiles), 1)
	}
	tiling.Dispatch(tiles, dispatch)
	groupedDProb(dprob, dh, dh, device.Data[T](h), device.Data[T](prob), f, tiling, tiles,
		n, tileJoin(c, len(tiles), tiling.Cols(f)), probeTiles[T](c))
}

// tileJoin is the order in which each row block's tiles are added. Contributions of the
// whole grid arrive in one order; a row block sees its part of it.
func tileJoin(c *device.Call, tiles, cols int) func(rowBlock int) kernel.Fold {
	r := c.Plan.Reduction("tiles")
	if !r.Order.Arrives() {
		fold := c.Fold("tiles", cols)
		return func(int) kernel.Fold { return fold }
	}
	arrival := make([][]int, tiles/cols)
	for _, t := range c.Arrival("tiles", tiles) {
		arrival[t/cols] = append(arrival[t/cols], t%cols)
	}
	return func(rowBlock int) kernel.Fold {
		of := r
		of.Order = r.Order.Resolve(reduce.Context{Arrival: func(int) []int { return arrival[rowBlock] }}, cols)
		return kernel.FoldOf(of, cols)
	}
}

func probeTiles[T libm.Float](c *device.Call) func(tile, []T) {
	if c.Probe == nil {
		return nil
	}
	return func(t tile, partial []T) {
		p := device.Partial{Subkernel: "grouped_gemm.dprob", Row: t.Lo, Tile: t.Col, Reverse: t.Reverse}
		switch v := any(partial).(type) {
		case []float32:
			p.F32 = v
		case []float64:
			p.F64 = v
		}
		c.Probe(p)
	}
}
