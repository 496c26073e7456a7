package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scans writes what lowp asks of whole slices, sixteen elements at a time.
func scans(g asm) {
	g.xor()
	g.upperHalves()
}

// xor keeps the XOR of float64s in four registers, which meet at the end.
func (g asm) xor() {
	g.function("xor16")
	x, n := g.arg("x"), g.arg("n")
	xors, nans := g.ymms(4), g.YMM()
	for _, y := range append(xors, nans) {
		g.VPXOR(y, y, y)
	}

	g.align()
	g.countDown("next", n, 16, func() {
		wide := g.ymms(4)
		for i, y := range wide {
			g.VCVTPS2PD(at(x).Offset(16*i), y)
		}
		left, isNaN := g.YMM(), g.YMM()
		g.VMOVUPS(at(x), left)
		g.VCMPPS(Imm(unordered), lanes(at(x), 1), left, isNaN)
		for i, y := range wide {
			g.VPXOR(y, xors[i], xors[i])
		}
		g.VPOR(isNaN, nans, nans)
		g.ADDQ(imm(64), x)
	})

	g.Comment("The four become one, then its halves, then the halves of these.")
	xor, half, sum := xors[0], g.XMM(), g.GP64()
	g.VPXOR(xors[1], xor, xor)
	g.VPXOR(xors[3], xors[2], xors[2])
	g.VPXOR(xors[2], xor, xor)
	g.VEXTRACTI128(Imm(1), xor, half)
	g.VPXOR(half, xor.AsX(), xor.AsX())
	g.VPSRLDQ(Imm(8), xor.AsX(), half)
	g.VPXOR(half, xor.AsX(), xor.AsX())
	g.VMOVQ(xor.AsX(), sum)
	g.Store(sum, g.Return("xor"))
	g.storeAny(nans, "nan")
}

// upperHalves takes the upper halves as they are, and looks whether a lower one was not 0.
func (g asm) upperHalves() {
	g.function("upperHalves16")
	dst, x, n := g.arg("dst"), g.arg("x"), g.arg("n")
	lowers, nans := g.YMM(), g.YMM()
	g.VPXOR(lowers, lowers, lowers)
	g.VPXOR(nans, nans, nans)

	g.align()
	g.countDown("next", n, 16, func() {
		left, right, odd := g.YMM(), g.YMM(), g.YMM()
		g.VMOVUPS(lanes(at(x), 0), left)
		g.VMOVUPS(lanes(at(x), 1), right)
		g.VCMPPS(Imm(unordered), right, left, odd)
		g.VPOR(odd, nans, nans)
		g.VPOR(right, left, odd)
		g.VPSLLD(Imm(16), odd, odd)
		g.VPOR(odd, lowers, lowers)
		g.VPSRLD(Imm(16), left, left)
		g.VPSRLD(Imm(16), right, right)
		g.Comment("Packing goes by the halves of a register, 0 to 3, 8 to 11, 4 to 7, 12 to 15: the middle ones change places.")
		g.VPACKUSDW(right, left, left)
		g.VPERMQ(Imm(0b11_01_10_00), left, left)
		g.VMOVDQU(left, at(dst))
		g.ADDQ(imm(64), x)
		g.ADDQ(imm(vector), dst)
	})

	g.VPOR(nans, lowers, lowers)
	g.storeAny(lowers, "odd")
}

// storeAny ends a function that returns whether any bit is set.
func (g asm) storeAny(y reg.Register, result string) {
	g.VPTEST(y, y)
	to, err := g.Return(result).Resolve()
	if err != nil {
		panic(err)
	}
	g.SETNE(to.Addr)
	g.ret()
}
