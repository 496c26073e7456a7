package quant

import (
	"sync"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
)

// The quantisers. Their outputs are packed, scales and, for two levels of scales, global, the amax. A block ends where a row, a column
// or an expert's rows do, whole or not.
var (
	scaledIn, scaled = device.Names("x scale?"), device.Names("packed scales")
	quantScaled      = map[lowp.Format]*device.Kernel{
		lowp.E4M3: {Name: "quantise.e4m3", In: scaledIn, Out: scaled, Run: runQuantScaled},
		lowp.E5M2: {Name: "quantise.e5m2", In: scaledIn, Out: scaled, Run: runQuantScaled},
	}
	// By the rule of scales, which another library may have otherwise.
	quantMXRows    = byRule(device.Kernel{Name: "quantise.mx.rows", In: device.Names("x"), Out: scaled, Run: runMXRows})
	quantMXColumns = byRule(device.Kernel{Name: "quantise.mx.columns", In: device.Names("x offsets?"), Out: scaled, Run: runMXColumns})
	quantNVRows    = &device.Kernel{Name: "quantise.nvfp4.rows", In: device.Names("x words?"), Out: device.Names("packed scales global"),
		Run: runNVRows}
	quantNVSquare  = &device.Kernel{Name: "quantise.nvfp4.square", In: device.Names("x"), Out: device.Names("packed scales global"), Run: runNVSquare}
	quantNVColumns = &device.Kernel{Name: "quantise.nvfp4.columns", In: device.Names("x offsets? words?"), Out: device.Names("packed scales global"),
		Fixed: reduce.MustPlan("hadamard:seq/fp32"), Run: runNVColumns}
)

func byRule(k device.Kernel) [2]*device.Kernel {
	up, floor := k, k
	up.Fixed, floor.Fixed = reduce.MustPlan("rule=up|floor"), reduce.MustPlan("rule=floor|up")
	return [2]*device.Kernel{&up, &floor}
}

func ruleOf(c *device.Call) mxRule {
	if c.Plan.Choice("rule") == "floor" {
		return mxFloor
	}
	return mxUp
}

// groups are runs of rows with blocks of their own: of experts, and otherwise one.
type groups struct {
	n, each int
	offsets []int32
}

// groupsOf are the groups of a tensor: of a weight its experts, of rows what the offsets say.
func groupsOf(t *device.Tensor, offsets []int32) groups {
	if offsets != nil {
		return groups{n: len(offsets) - 1, offsets: offsets}
	}
	n := 1
	if s := t.Shape(); len(s) == 3 {
		n = s[0]
	}
	return groups{n: n, each: t.Rows() / n}
}

func offsets(c *device.Call) []int32 {
	if c.Has("offsets") {
		return c.Input("offsets").I32()
	}
	return nil
}

func (g groups) rows(i int) (lo, hi int) {
	if g.offsets != nil {
		return int(g.offsets[i]), int(g.offsets[i+1])
	}
	return i * g.each, (i + 1) * g.each
}

// scratch is what quantisers need between their kernels.
type scratch struct {
	codes, scales []byte
	x, y          []float32
	words         []uint32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	return (*s)[:n]
}

// pad is x with rows filled up with zeros to a number of columns.
func (s *scratch) pad(x []float32, cols, to int) []float32 {
	if cols == to {
		return x
	}
	y := grow(&s.x, len(x)/cols*to)
	clear(y)
	for r := range len(x) / cols {
		copy(y[r*to:], x[r*cols:][:cols])
	}
	return y
}

// values writes what codes stand for, of rows that were padded.
func (s *scratch) values(f lowp.Format, y []float32, codes []byte, cols, from int) {
	if cols == from {
		f.DecodeScaled(y, codes, 1)
		return
	}
	all := grow(&s.y, len(y)/cols*from)
	f.DecodeScaled(all, codes, 1)
	for r := range len(y) / cols {
		copy(y[r*cols:][:cols], all[r*from:])
	}
}

func decodeEach(f lowp.Format, y []float32, codes []byte) {
	for i, c := range codes {
		y[i] = f.Decode(uint32(c))
	}
}

// unused fills the scales of blocks that no expert has.
func unused(f lowp.Format, y []float32) {
	for i := range y {
		y[i] = f.Decode(0)
	}
}

// runQuantScaled has one scale for a tensor, and one for each expert's weight: by its amax, or what it is told.
func runQuantScaled(c *device.Call) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	x, codes, inverses := c.Input("x").F32(), c.Output("packed"), c.Output("scales").F32()
	part := len(x) / max(len(inverses), 1)
	for i := range inverses {
		of := x[i*part:][:part]
		scale, inverse := float32(0), float32(0)
		if c.Has("scale") {
			scale = c.Input("scale").F32()[0]
			inverse = 1 / scale
		} else {
			scale, inverse = currentScale(codes.Format, lowp.AbsMax(of))
		}
		bytes := grow(&s.codes, part)
		quantiseScaled(codes.Format, bytes, of, scale)
		codes.Format.DecodeScaled(codes.F32()[i*part:][:part], bytes, 1)
		inverses[i] = inverse
	}
}

func runMXRows(c *device.Call) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	x, cols := c.Input("x"), c.Input("x").Cols()
	wide := blocks(cols, mxBlock) * mxBlock
	in := s.pad(x.F32(), cols, wide)
	codes, scales := grow(&s.codes, len(in)), grow(&s.scales, len(in)/mxBlock)
	quantiseMXRows(codes, scales, in, ruleOf(c))
	s.values(lowp.E4M3, c.Output("packed").F32(), codes, cols, wide)
	decodeEach(lowp.E8M0, c.Output("scales").F32(), scales)
}

func runMXColumns(c *device.Call) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	x, d := c.Input("x"), c.Input("x").Cols()
	g, to := groupsOf(x, offsets(c)), c.Output("scales").F32()
	for i := range g.n {
		lo, hi := g.rows(i)
		n := blocks(hi-lo, mxBlock)
		in := s.pad(x.F32()[lo*d:hi*d], (hi-lo)*d, n*mxBlock*d)
		codes, scales := grow(&s.codes, len(in)), grow(&s.scales, n*d)
		quantiseMXColumns(codes, scales, in, d, ruleOf(c))
		lowp.E4M3.DecodeScaled(c.Output("packed").F32()[lo*d:hi*d], codes, 1)
		decodeEach(lowp.E8M0, to, scales)
		to = to[n*d:]
	}
	unused(lowp.E8M0, to)
}
