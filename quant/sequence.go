package quant

import (
	"math"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/lowp"
	"firstbit/reduce"
)

// Copies whose bits do not depend on the layout.
//
// A maximum is exact in any order, so only the set that it is taken over must be one that no layout cuts. In place of a tensor's amax each row
// of an activation or of its gradient is scaled by that of its sequence, joined over all ranks that have a part of the sequence; a weight by that
// of the whole weight. Scales are powers of two: a product's sum is multiplied with them, and s·(a+b) is s·a + s·b only then, with a and b on two
// ranks. A weight's gradient adds rows of several sequences, so there the scales are in the operands, where they round nothing.

// Largest is the largest of what all ranks of a group have, element by element.
type Largest func(d *device.Device, label string, x *device.Tensor) *device.Tensor

// Microbatch is how a run's tokens lie in microbatches.
type Microbatch struct {
	Batch, Seq int // sequences of a microbatch, tokens of a sequence
	Window     int // microbatches of a data rank in a step
}

// Shared says of which tokens the rows are that a rank multiplies with a weight, and over whom an amax is one of a whole sequence.
//
// A token is numbered among those of a microbatch of Sources data ranks: (s·Batch + sequence)·Seq + position.
type Shared struct {
	Microbatch
	Data    int // the first of the data ranks whose tokens come here
	Sources int // how many these are: of experts there may be several
	Expert  int // the first of the rank's experts
	Column  int // the first column that the rank has of the product's gradient

	Tokens      *device.Tensor // (rows) the token of each row; nil: of experts, whose rows come with theirs
	Rows, Whole Largest        // over the ranks that have a part of the sequences, and of the weight
}

// Rows are the tokens of rows, and where those of each expert begin; nil: there are no experts.
type Rows struct{ Tokens, Offsets *device.Tensor }

var (
	amaxSequence = &device.Kernel{Name: "amax.sequence", In: device.Names("x tokens"), Scalars: device.Names("seq"), Out: device.Names("amax"),
		Fixed: reduce.MustPlan("over=sequence|tensor"), Run: runAmaxSequence}
	amaxWeight   = &device.Kernel{Name: "amax.weight", In: device.Names("x"), Out: device.Names("amax"), Run: runAmaxWeight}
	toPower      = reduce.MustPlan("scale=power|exact")
	byAmax       = device.Names("x tokens amax")
	byAmaxRandom = device.Names("x tokens amax words?")
	scaledBy     = map[lowp.Format]*device.Kernel{
		lowp.E4M3: {Name: "quantise.e4m3", In: byAmax, Scalars: device.Names("seq"), Out: scaled, Fixed: toPower, Run: runQuantBySequence},
		lowp.E5M2: {Name: "quantise.e5m2", In: byAmax, Scalars: device.Names("seq"), Out: scaled, Fixed: toPower, Run: runQuantBySequence},
	}
	scaledWeight = &device.Kernel{Name: "quantise.e4m3", In: device.Names("x amax"), Out: scaled, Fixed: toPower, Run: runQuantWhole}
	nvGlobal     = device.Names("packed scales global")
	nvRowsBy     = &device.Kernel{Name: "quantise.nvfp4.rows", In: byAmaxRandom, Scalars: device.Names("seq"), Out: nvGlobal, Fixed: toPower, Run: runNVRowsBySequence}
	nvColumnsBy  = &device.Kernel{Name: "quantise.nvfp4.columns", In: byAmaxRandom, Scalars: device.Names("seq"), Out: nvGlobal, Fixed: toPower,
		Run: runNVColumnsBySequence}
	delayedPower   = func(k device.Kernel) *device.Kernel { k.Fixed = toPower; return &k }
	powerE4M3      = delayedPower(*delayedE4M3)
	powerE5M2      = delayedPower(*delayedE5M2)
	nvSquareWhole  = &device.Kernel{Name: "quantise.nvfp4.square", In: device.Names("x amax"), Out: nvGlobal, Fixed: toPower, Run: runNVSquareWhole}
	hadamardKernel = &device.Kernel{Name: "hadamard", In: device.Names("x"), Out: device.Names("y"), Fixed: reduce.MustPlan("hadamard:seq/fp32"), Run: runHadamard}
)

// amaxOf is the amax of each sequence that the rows are of, over all ranks that have a part of it.
func (q *Weight) amaxOf(d *device.Device, l *operand, x *device.Tensor, of Rows) *device.Tensor {
	s := q.Shared
	c := d.Open(l.amax, amaxSequence)
	c.Read("x", x)
	c.Read("tokens", of.Tokens)
	c.ReadScalar("seq", float64(s.Seq))
	amax := c.Write("amax", lowp.FP32, s.Sources*s.Batch)
	c.Do()
	return s.Rows(d, l.most, amax)
}

// bySequence is the copy of rows, each scaled by the amax of its sequence. Rows that are whole blocks of tokens have the blocks along these.
func (q *Weight) bySequence(d *device.Device, k *device.Kernel, l *operand, x, words *device.Tensor, of Rows, codes lowp.Format, extents ...int) Packed {
	amax := q.amaxOf(d, l, x, of)
	c := d.Open(l.quant, k)
	c.Read("x", x)
	c.Read("tokens", of.Tokens)
	c.Read("amax", amax)
	c.ReadIf("words", words)
	c.ReadScalar("seq", float64(q.Shared.Seq))
	p := Packed{Codes: c.Write("packed", codes, x.Shape()...)}
	if codes == lowp.E2M1 {
		p.Scales, p.Global = c.Write("scales", lowp.E4M3, extents...), c.Write("global", lowp.FP32, x.Rows())
	} else {
		p.Scales = c.Write("scales", lowp.FP32, x.Rows())
	}
	c.Do()
	return p
}

// transformed are blocks of 16 rows, each multiplied with the Hadamard matrix.
func transformed(d *device.Device, label string, x *device.Tensor) *device.Tensor {
	c := d.Open(label, hadamardKernel)
	c.Read("x", x)
	y := c.Write("y", lowp.FP32, x.Shape()...)
	c.Do()
	return y
}

// runs calls do with the runs of rows that are of one sequence.
func runs(c *device.Call, do func(lo, hi, sequence int)) {
	tokens, seq := c.Input("tokens").I32(), int32(c.Scalar("seq"))
	for lo := 0; lo < len(tokens); {
		hi := lo + 1
		for hi < len(tokens) && tokens[hi]/seq == tokens[lo]/seq {
			hi++
		}
		do(lo, hi, int(tokens[lo]/seq))
		lo = hi
	}
}

// runAmaxSequence is amax[s] = max |x[r,j]| over the rows r of sequence s. Over a tensor every sequence has that of all.
func runAmaxSequence(c *device.Call) {
	x, d, amax := c.Input("x").F32(), c.Input("x").Cols(), c.Output("amax").F32()
	clear(amax)
	runs(c, func(lo, hi, s int) { amax[s] = max(amax[s], lowp.AbsMax(x[lo*d:hi*d])) })
	if c.Plan.Choice("over") == "tensor" {
		for i := range amax {
			amax[i] = lowp.AbsMax(x)
		}
	}
}

func runAmaxWeight(c *device.Call) {
	x, amax := c.Input("x").F32(), c.Output("amax").F32()
	for e := range amax {
		amax[e] = lowp.AbsMax(x[e*len(x)/len(amax) : (e+1)*len(x)/len(amax)])
	}
}

// floorPower is the largest power of two up to a positive scale.
//
// Source: TransformerEngine's force_pow_2_scales.
func floorPower(scale float32) float32 {
	if scale != scale {
		return scale
	}
	return math.Float32frombits(math.Float32bits(scale) &^ (1<<23 - 1))
}

// power tells whether scales are powers of two by the Call's plan.
func power(c *device.Call) bool { return c.Plan.Choice("scale") == "power" }

// scaleBy is currentScale, to a power of two by the Call's plan.
func scaleBy(c *device.Call, f lowp.Format, amax float32) (scale, inverse float32) {
	if scale, inverse = currentScale(f, amax); power(c) {
		scale = floorPower(scale)
		return scale, 1 / scale
	}
	return scale, inverse
}

// globalBy is the encode scale by an amax, and what takes the amax' place in the product. Where the scale is a power of two that is 2688 times its
// inverse, and (2688·2ᵐ)·(2688·2ⁿ)·fl32(1/2688²) is 2ᵐ⁺ⁿ, without rounding.
func globalBy(c *device.Call, amax float32) (tensor, global float32) {
	if tensor = nvTensorScale(amax); power(c) {
		tensor = floorPower(tensor)
		return tensor, 2688 / tensor
	}
	return tensor, amax
}

func runQuantBySequence(c *device.Call) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	x, d, codes, inverses, amax := c.Input("x").F32(), c.Input("x").Cols(), c.Output("packed"), c.Output("scales").F32(), c.Input("amax").F32()
	runs(c, func(lo, hi, sequence int) {
		scale, inverse := scaleBy(c, codes.Format, amax[sequence])
		quantiseCodes(s, codes.F32()[lo*d:hi*d], codes.Format, x[lo*d:hi*d], scale)
		fill(inverses[lo:hi], inverse)
	})
}

// quantiseCodes writes what the codes of x stand for.
func quantiseCodes(s *scratch, y []float32, f lowp.Format, x []float32, scale float32) {
	bytes := grow(&s.codes, len(x))
	quantiseScaled(f, bytes, x, scale)
	f.DecodeScaled(y, bytes, 1)
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

func runNVSquareWhole(c *device.Call) {
	amax := c.Input("amax").F32()
	nvSquares(c, func(expert int, _ []float32) (tensor, global float32) { return globalBy(c, amax[expert]) })
}

func runQuantWhole(c *device.Call) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	x, codes, inverses, amax := c.Input("x").F32(), c.Output("packed"), c.Output("scales").F32(), c.Input("amax").F32()
	part := len(x) / max(len(inverses), 1)
	for i := range inverses {
		scale, inverse := scaleBy(c, codes.Format, amax[i])
		quantiseCodes(s, codes.F32()[i*part:][:part], codes.Format, x[i*part:][:part], scale)
		inverses[i] = inverse
	}
}

func runNVRowsBySequence(c *device.Call) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	x, cols, amax := c.Input("x"), c.Input("x").Cols(), c.Input("amax").F32()
	across := blocks(cols, nvBlock)
	wide := across * nvBlock
	in, words := s.pad(x.F32(), cols, wide), roundedBy(c, s, cols, wide)
	codes, scales := grow(&s.codes, len(in)/2), grow(&s.scales, len(in)/nvBlock)
	runs(c, func(lo, hi, sequence int) {
		tensor, global := globalBy(c, amax[sequence])
		var by []uint32
		if words != nil {
			by = words[lo*wide : hi*wide]
		}
		quantiseNVFP4(codes[lo*wide/2:hi*wide/2], scales[lo*across:hi*across], in[lo*wide:hi*wide], tensor, by)
		fill(c.Output("global").F32()[lo:hi], global)
	})
	s.values(lowp.E2M1, c.Output("packed").F32(), codes, cols, wide)
	decodeEach(lowp.E4M3, c.Output("scales").F32(), scales)
}

// runHadamard multiplies blocks of 16 rows with the Hadamard matrix: absent tokens are rows of zeros, so the rows are whole blocks.
//
//	y[16b+j] = fold_i sign_i·H[i,j]/4·x[16b+i]
//
// Shapes:  x (rows,d) → y (rows,d), rows a multiple of 16.
// Reduces: 16, by hadamard.
func runHadamard(c *device.Call) {
	x, y, d := c.Input("x").F32(), c.Output("y").F32(), c.Input("x").Cols()
	if len(x)%(nvBlock*d) != 0 {
		panic("quant: a Hadamard transform of rows that are not whole blocks of 16")
	}
	f := c.Fold("hadamard", nvBlock)
	for at := 0; at < len(x); at += nvBlock * d {
		kernel.MatMul(y[at:][:nvBlock*d], d, kernel.RowMajor(hadamard[:], nvBlock).T(), kernel.RowMajor(x[at:][:nvBlock*d], d), nvBlock, d, nvBlock, f)
	}
}

// runNVColumnsBySequence quantises blocks of 16 rows of a column, all of one sequence.
func runNVColumnsBySequence(c *device.Call) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	x, d, seq := c.Input("x").F32(), c.Input("x").Cols(), int32(c.Scalar("seq"))
	amax, tokens := c.Input("amax").F32(), c.Input("tokens").I32()
	packed, to, globals := c.Output("packed").F32(), c.Output("scales").F32(), c.Output("global").F32()
	columns, values := grow(&s.x, nvBlock*d), grow(&s.y, nvBlock*d)
	codes, scales := grow(&s.codes, nvBlock*d/2), grow(&s.scales, d)
	var by []uint32
	for r := 0; r < len(tokens); r += nvBlock {
		transpose(columns, x[r*d:][:nvBlock*d], d)
		if w := c.Input("words"); w != nil {
			by = grow(&s.words, nvBlock*d)
			for i, v := range w.I32()[r*d:][:nvBlock*d] {
				by[i%d*nvBlock+i/d] = uint32(v)
			}
		}
		tensor, global := globalBy(c, amax[tokens[r]/seq])
		quantiseNVFP4(codes, scales, columns, tensor, by)
		lowp.E2M1.DecodeScaled(values, codes, 1)
		transpose(packed[r*d:][:nvBlock*d], values, nvBlock)
		decodeEach(lowp.E4M3, to[r/nvBlock*d:][:d], scales)
		fill(globals[r:][:nvBlock], global)
	}
}

// transpose is y[j,i] = x[i,j].
//
// Shapes: x (rows,d) → y (d,rows).
func transpose(y, x []float32, d int) {
	rows := len(x) / d
	for i := range rows {
		for j, v := range x[i*d:][:d] {
			y[j*rows+i] = v
		}
	}
}
