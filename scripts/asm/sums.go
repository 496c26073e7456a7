package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sums writes what reduce does with long runs of values. In span and split no order reaches a bit, since sums are of numbers whose sum
// a float64 holds; in lanes8 each of eight lanes is a sum in order.
func sums(g asm) {
	g.span()
	g.splitSums()
	g.laneSums()
}

// span keeps the largest magnitudes, and the least less one, where 0 is the largest number.
func (g asm) span() {
	g.function("span16")
	x, n := g.arg("x"), g.arg("n")
	most, least := g.ymms(2), g.ymms(2)
	ones, mask := g.YMM(), g.YMM()
	g.VPCMPEQD(ones, ones, ones)
	g.VPSRLD(Imm(1), ones, mask)
	for i := range most {
		g.VPXOR(most[i], most[i], most[i])
		g.VMOVDQA(ones, least[i])
	}

	g.align()
	g.countDown("next", n, 16, func() {
		for i := range most {
			v, less := g.YMM(), g.YMM()
			g.VPAND(lanes(at(x), i), mask, v)
			g.VPADDD(ones, v, less)
			g.VPMAXUD(v, most[i], most[i])
			g.VPMINUD(less, least[i], least[i])
		}
		g.ADDQ(imm(64), x)
	})

	g.VPMAXUD(most[1], most[0], most[0])
	g.VPMINUD(least[1], least[0], least[0])
	g.halves(most[0], func(a, b reg.Register) { g.VPMAXUD(a, b, b) })
	g.halves(least[0], func(a, b reg.Register) { g.VPMINUD(a, b, b) })
	m, l := g.GP32(), g.GP32()
	g.VMOVD(most[0].AsX(), m)
	g.VMOVD(least[0].AsX(), l)
	g.Store(m, g.Return("largest"))
	g.Store(l, g.Return("least"))
	g.ret()
}

// halves joins the eight lanes of a register into its first.
func (g asm) halves(y reg.VecVirtual, join func(a, b reg.Register)) {
	half := g.XMM()
	g.VEXTRACTI128(Imm(1), y, half)
	join(half, y.AsX())
	g.VPSRLDQ(Imm(8), y.AsX(), half)
	join(half, y.AsX())
	g.VPSRLDQ(Imm(4), y.AsX(), half)
	join(half, y.AsX())
}

// splitSums rounds float64s to units by adding a large number and taking it off again, and keeps what that drops apart.
func (g asm) splitSums() {
	g.function("split16")
	x, n := g.arg("x"), g.arg("n")
	beside := g.YMM()
	address, err := g.Param("beside").Resolve()
	if err != nil {
		panic(err)
	}
	g.VBROADCASTSD(address.Addr, beside)
	high, low := g.ymms(4), g.ymms(4)
	for i := range high {
		g.VPXOR(high[i], high[i], high[i])
		g.VPXOR(low[i], low[i], low[i])
	}

	g.align()
	g.countDown("next", n, 16, func() {
		for i := range high {
			v, units := g.YMM(), g.YMM()
			g.VCVTPS2PD(at(x).Offset(16*i), v)
			g.VADDPD(beside, v, units)
			g.VSUBPD(beside, units, units)
			g.VADDPD(units, high[i], high[i])
			g.VSUBPD(units, v, v)
			g.VADDPD(v, low[i], low[i])
		}
		g.ADDQ(imm(64), x)
	})

	g.storeFloat64(high, "high")
	g.storeFloat64(low, "low")
	g.ret()
}

// storeFloat64 returns the sum of all lanes of four registers.
func (g asm) storeFloat64(y []reg.VecVirtual, result string) {
	g.VADDPD(y[1], y[0], y[0])
	g.VADDPD(y[3], y[2], y[2])
	g.VADDPD(y[2], y[0], y[0])
	half := g.XMM()
	g.VEXTRACTF128(Imm(1), y[0], half)
	g.VADDPD(half, y[0].AsX(), y[0].AsX())
	g.VPSRLDQ(Imm(8), y[0].AsX(), half)
	g.VADDSD(half, y[0].AsX(), y[0].AsX())
	g.Store(y[0].AsX(), g.Return(result))
}

// laneSums adds eight values at a time to eight sums.
func (g asm) laneSums() {
	g.function("lanes8")
	sums, x, n := g.arg("sums"), g.arg("x"), g.arg("n")
	y := g.YMM()
	g.VMOVUPS(at(sums), y)

	g.align()
	g.countDown("next", n, 8, func() {
		g.VADDPS(at(x), y, y)
		g.ADDQ(imm(vector), x)
	})
	g.VMOVUPS(y, at(sums))
	g.ret()
}
