package quant

import (
	"firstbit/device"
	"firstbit/lowp"
)

// roundedBy are the words by which padded rows are rounded; nil: to nearest.
func roundedBy(c *device.Call, s *scratch, cols, wide int) []uint32 {
	if !c.Has("words") {
		return nil
	}
	w := c.Input("words").I32()
	words := grow(&s.words, len(w)/cols*wide)
	clear(words)
	for r := range len(w) / cols {
		for j, v := range w[r*cols:][:cols] {
			words[r*wide+j] = uint32(v)
		}
	}
	return words
}

func runNVRows(c *device.Call) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	x, cols := c.Input("x"), c.Input("x").Cols()
	wide := blocks(cols, nvBlock) * nvBlock
	in := s.pad(x.F32(), cols, wide)
	amax := lowp.AbsMax(in)
	codes, scales := grow(&s.codes, len(in)/2), grow(&s.scales, len(in)/nvBlock)
	quantiseNVFP4(codes, scales, in, nvTensorScale(amax), roundedBy(c, s, cols, wide))
	s.values(lowp.E2M1, c.Output("packed").F32(), codes, cols, wide)
	decodeEach(lowp.E4M3, c.Output("scales").F32(), scales)
	c.Output("global").F32()[0] = amax
}

func runNVSquare(c *device.Call) {
	nvSquares(c, func(_ int, x []float32) (tensor, global float32) {
		amax := lowp.AbsMax(x)
		return nvTensorScale(amax), amax
	})
}

// nvSquares quantises each expert's squares by a scale for the whole.
func nvSquares(c *device.Call, scaleOf func(expert int, x []float32) (tensor, global float32)) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	x, d := c.Input("x"), c.Input("x").Cols()
	g, to := groupsOf(x, nil), c.Output("scales").F32()
	wide, high := blocks(d, nvBlock)*nvBlock, blocks(g.each, nvBlock)*nvBlock
	for i := range g.n {
		lo, hi := g.rows(i)
		in := x.F32()[lo*d : hi*d]
		tensor, global := scaleOf(i, in)
		if wide != d || high != g.each {
			padded := grow(&s.x, high*wide)
			clear(padded)
			for r := range g.each {
				copy(padded[r*wide:], in[r*d:][:d])
			}
			in = padded
		}
		codes, scales := grow(&s.codes, len(in)/2), grow(&s.scales, len(in)/nvBlock/nvBlock)
		quantiseNVFP4Square(codes, scales, in, wide, tensor)
		s.values(lowp.E2M1, c.Output("packed").F32()[lo*d:hi*d], codes, d, wide)
		decodeEach(lowp.E4M3, to, scales)
		to = to[len(scales):]
		c.Output("global").F32()[i] = global
	}
}

// runNVColumns quantises blocks of 16 rows, each multiplied with the Hadamard matrix first. A block that is not whole is left
// as it is, in both operands of a product, which the other blocks' matrices leave what it was.
func runNVColumns(c *device.Call) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	x, d := c.Input("x"), c.Input("x").Cols()
	g, size := groupsOf(x, offsets(c)), 0
	for i := range g.n {
		lo, hi := g.rows(i)
		size += blocks(hi-lo, nvBlock) * nvBlock * d
	}
	all := s.transformed(c, x.F32(), d, size, g)
	amax := lowp.AbsMax(all)
	codes, scales := grow(&s.codes, size/2), grow(&s.scales, size/nvBlock)
	quantiseNVFP4(codes, scales, all, nvTensorScale(amax), wordsByColumns(c, s, d, size, g))
	lowp.E2M1.DecodeScaled(all, codes, 1)
	to := c.Output("scales").F32()
	for i := range g.n {
		lo, hi := g.rows(i)
		n := blocks(hi-lo, nvBlock)
		for j := range d {
			row := all[j*n*nvBlock:]
			for r := lo; r < hi; r++ {
				c.Output("packed").F32()[r*d+j] = row[r-lo]
			}
			for b := range n {
				to[b*d+j] = lowp.E4M3.Decode(uint32(scales[j*n+b]))
			}
		}
		all, scales, to = all[n*nvBlock*d:], scales[n*d:], to[n*d:]
	}
	unused(lowp.E4M3, to)
	c.Output("global").F32()[0] = amax
}

// transformed are the groups' columns, one after another, multiplied block by block.
func (s *scratch) transformed(c *device.Call, x []float32, d, size int, g groups) []float32 {
	all, y := grow(&s.x, size), grow(&s.y, size)
	clear(all)
	at := all
	for i := range g.n {
		lo, hi := g.rows(i)
		wide := blocks(hi-lo, nvBlock) * nvBlock
		for r := lo; r < hi; r++ {
			for j, v := range x[r*d:][:d] {
				at[j*wide+r-lo] = v
			}
		}
		at = at[wide*d:]
	}
	randomHadamard(y, all, c.Fold("hadamard", nvBlock))
	from, to := all, y
	for i := range g.n {
		lo, hi := g.rows(i)
		wide := blocks(hi-lo, nvBlock) * nvBlock
		if rest := (hi - lo) % nvBlock; rest > 0 {
			for j := range d {
				tail := (j+1)*wide - nvBlock
				copy(to[tail:][:nvBlock], from[tail:])
			}
		}
		from, to = from[wide*d:], to[wide*d:]
	}
	return y
}

// wordsByColumns are the words of elements where these lie in the groups' columns; nil: to nearest.
func wordsByColumns(c *device.Call, s *scratch, d, size int, g groups) []uint32 {
	if !c.Has("words") {
		return nil
	}
	w, words := c.Input("words").I32(), grow(&s.words, size)
	clear(words)
	at := words
	for i := range g.n {
		lo, hi := g.rows(i)
		wide := blocks(hi-lo, nvBlock) * nvBlock
		for r := lo; r < hi; r++ {
			for j, v := range w[r*d:][:d] {
				at[j*wide+r-lo] = uint32(v)
			}
		}
		at = at[wide*d:]
	}
	return words
}
