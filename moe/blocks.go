package moe

import (
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/quant"
	"firstbit/reduce"
)

// blocks are an expert's rows in whole blocks of tokens, for a weight's gradient on quantised operands. By a block's tokens an expert has some
// rows, and those without are rows of zeros: which tokens share a block, and which stand where in a Hadamard transform, depends on no other
// sequence, and on no layout that cuts the tokens between blocks.
type blocks struct{ order, tokens, bounds, offsets *device.Tensor }

var blockRows = &device.Kernel{Name: "block_rows", In: device.Names("tokens bounds"), Scalars: device.Names("size sources"),
	Out: device.Names("order tokens bounds offsets"), Fixed: reduce.MustPlan("cut=all|present"), Run: runBlockRows}

// shared tells whether copies of rows must not depend on the layout, so that their tokens have to be known.
func (x *Experts) shared() bool {
	for _, w := range [...]*nn.Param{x.W1, x.W2} {
		if q := quant.Of(w); q != nil && q.Shared != nil {
			return true
		}
	}
	return false
}

// rows are the tokens of the rows at hand.
func (x *Experts) rows() quant.Rows { return quant.Rows{Tokens: x.tokens, Offsets: x.offsets} }

// blocksOf lays the rows of this backward down in blocks of so many tokens.
func (x *Experts) blocksOf(dev *device.Device, size int) *blocks {
	if b := x.laid[size]; b != nil {
		return b
	}
	c := dev.Open("blocks", blockRows)
	c.Read("tokens", x.tokens)
	c.Read("bounds", x.bounds)
	c.ReadScalar("size", float64(size))
	c.ReadScalar("sources", float64(x.sources))
	rows := 0
	eachBlock(x.tokens.I32(), x.bounds.I32(), size, true, func(int, []int32) { rows += size })
	b := &blocks{order: c.Write("order", lowp.INT32, rows), tokens: c.Write("tokens", lowp.INT32, rows),
		bounds: c.Write("bounds", lowp.INT32, x.bounds.Len()), offsets: c.Write("offsets", lowp.INT32, x.offsets.Len())}
	c.Do()
	if x.laid == nil {
		x.laid = map[int]*blocks{}
	}
	x.laid[size] = b
	return b
}

// eachBlock calls do for every block that has a row, of each run of rows between two bounds: cut by token, or, with byToken false, every so many
// rows.
func eachBlock(tokens, bounds []int32, size int, byToken bool, do func(run int, tokens []int32)) {
	for run := range len(bounds) - 1 {
		for lo, end := int(bounds[run]), int(bounds[run+1]); lo < end; {
			hi := lo + 1
			for hi < end && (byToken && int(tokens[hi])/size == int(tokens[lo])/size || !byToken && hi < lo+size) {
				hi++
			}
			do(run, tokens[lo:hi])
			lo = hi
		}
	}
}

// runBlockRows finds the row of each place of a block, −1 where the place's token has none. Cut by what is present, rows follow one another, and a
// place without a row repeats the last token.
func runBlockRows(c *device.Call) {
	size, sources := int(c.Scalar("size")), int(c.Scalar("sources"))
	order, tokens, bounds, offsets := c.Output("order").I32(), c.Output("tokens").I32(), c.Output("bounds").I32(), c.Output("offsets").I32()
	for i := range order {
		order[i] = -1
	}
	clear(tokens)
	clear(bounds)
	at, row, byToken := 0, int32(0), c.Plan.Choice("cut") == "all"
	eachBlock(c.Input("tokens").I32(), c.Input("bounds").I32(), size, byToken, func(run int, of []int32) {
		for i := range size {
			if byToken {
				tokens[at+i] = of[0]/int32(size)*int32(size) + int32(i)
			} else {
				tokens[at+i] = of[min(i, len(of)-1)]
			}
		}
		for i, token := range of {
			place := i
			if byToken {
				place = int(token) % size
			}
			order[at+place] = row
			row++
		}
		at += size
		bounds[run+1] = int32(at)
	})
	for i := 1; i < len(bounds); i++ {
		bounds[i] = max(bounds[i], bounds[i-1])
	}
	for e := range offsets {
		offsets[e] = bounds[e*sources]
	}
}
