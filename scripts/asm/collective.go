package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// collective writes the sums of a collective's members: rows are added to partial sums one after another, each element in
// a lane of its own.
func collective(g asm) {
	g.sumRows("sumRows32", 8, func() adder { return fp32{g} })
	g.sumRows("sumRowsBF16", 4, func() adder { return g.bf16() })
}

// An adder adds eight elements in one format.
type adder interface {
	add(leaf Mem, sum reg.Register)     // a leaf to a sum
	join(partial Mem, sum reg.Register) // a sum to the partial sum that memory holds, in the sum's register
}

// The ways to begin and end a sum, by the numbers of the package: extend is 0, and begin, of which nothing is asked, 1.
const join = 2

// sumRows goes through the elements in strips: as many vectors as there are sums to keep the adder busy while it waits
// for each, then single ones.
func (g asm) sumRows(name string, vectors int, newAdder func() adder) {
	g.function(name)
	acc, slices, k := g.arg("acc"), g.arg("rows"), g.arg("k")
	lo, n, how := g.arg("lo"), g.arg("n"), g.arg("how")
	g.toBytes(lo)
	zero := g.YMM()
	g.negZero(zero)
	adder := newAdder()

	strip := func(name, after string, vectors int) {
		g.Label(name)
		g.CMPQ(n, imm(vectors*8))
		g.JLT(LabelRef(after))
		sums := g.ymms(vectors)
		for _, y := range sums {
			g.VMOVAPS(zero, y)
		}
		g.TESTQ(how, how)
		g.JNZ(LabelRef(name + "Rows"))
		for i, y := range sums {
			g.VMOVUPS(lanes(at(acc), i), y)
		}

		g.Label(name + "Rows")
		slice, left := g.GP64(), g.GP64()
		g.MOVQ(slices, slice)
		g.MOVQ(k, left)
		g.countDown(name+"Row", left, 1, func() {
			row := g.GP64()
			g.MOVQ(at(slice), row)
			g.ADDQ(lo, row)
			for i, y := range sums {
				adder.add(lanes(at(row), i), y)
			}
			g.ADDQ(imm(sliceBytes), slice)
		})
		g.CMPQ(how, Imm(join))
		g.JNE(LabelRef(name + "Store"))
		for i, y := range sums {
			adder.join(lanes(at(acc), i), y)
		}

		g.Label(name + "Store")
		for i, y := range sums {
			g.VMOVUPS(y, lanes(at(acc), i))
		}
		g.ADDQ(imm(vectors*vector), acc)
		g.ADDQ(imm(vectors*vector), lo)
		g.SUBQ(imm(vectors*8), n)
		g.JMP(LabelRef(name))
	}
	strip("wide", "narrow", vectors)
	strip("narrow", "done", 1)
	g.Label("done")
	g.ret()
}

// sliceBytes is the size of a slice: where its elements are, its length, its capacity.
const sliceBytes = 24

type fp32 struct{ asm }

func (g fp32) add(leaf Mem, sum reg.Register) { g.VADDPS(leaf, sum, sum) }

func (g fp32) join(partial Mem, sum reg.Register) {
	held := g.YMM()
	g.VMOVUPS(partial, held)
	g.VADDPS(sum, held, sum)
}

// bf16 rounds leaves as they enter a sum, and the sum after each.
type bf16 struct {
	asm
	one, belowHalf, upper, nan reg.Register
}

func (g asm) bf16() bf16 {
	r := bf16{g, g.YMM(), g.YMM(), g.YMM(), nil}
	g.Comment("1, 0x7fff, 0xffff0000 and bf16's NaN")
	g.VPCMPEQD(r.one, r.one, r.one)
	g.VPSRLD(Imm(17), r.one, r.belowHalf)
	g.VPSLLD(Imm(16), r.one, r.upper)
	g.VPSRLD(Imm(31), r.one, r.one)
	bits, nan := g.GP64(), g.YMM()
	g.MOVL(Imm(0x7fc00000), bits.As32())
	g.MOVQ(bits, nan.AsX())
	g.VPBROADCASTD(nan.AsX(), nan)
	r.nan = nan
	return r
}

func (g bf16) add(leaf Mem, sum reg.Register) {
	x := g.YMM()
	g.VMOVUPS(leaf, x)
	g.round(x)
	g.VADDPS(x, sum, sum)
	g.round(sum)
}

func (g bf16) join(partial Mem, sum reg.Register) {
	held := g.YMM()
	g.VMOVUPS(partial, held)
	g.VADDPS(sum, held, sum)
	g.round(sum)
}

// round is lowp's rounding to bf16: to nearest, ties to even, and every NaN is the one of 0x7fc0.
func (g bf16) round(x reg.Register) {
	rounded, isNaN := g.YMM(), g.YMM()
	g.VPSRLD(Imm(16), x, rounded)
	g.VPAND(g.one, rounded, rounded)
	g.VPADDD(g.belowHalf, rounded, rounded)
	g.VPADDD(x, rounded, rounded)
	g.VPAND(g.upper, rounded, rounded)
	g.VCMPPS(Imm(unordered), x, x, isNaN)
	g.VBLENDVPS(isNaN, g.nan, rounded, x)
}
