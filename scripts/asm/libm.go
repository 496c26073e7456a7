package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elementary writes functions of four lanes of float64, every lane by the steps of Exp and of expKernel, in their order:
// each product is rounded before it is added, no instruction fuses, and divisions divide. What Exp branches on is either
// kept out of the lanes (see plainLeast) or, where eˣ is 1+x, computed both ways and chosen.
func elementary(g asm) {
	for _, of := range []element{float32s, float64s} {
		g.slice("exp"+of.suffix, of, plain, func(c constants, x reg.Register) reg.VecVirtual { return c.exp(x) })
	}
	for _, of := range []element{float32s, float64s} {
		g.slice("sigmoid"+of.suffix, of, magnitudes, constants.sigmoid)
	}
	for _, of := range []element{float32s, float64s} {
		g.slice("silu"+of.suffix, of, magnitudes, constants.silu)
	}
}

// The rows of laneConstants, in its order.
const (
	half = iota
	log2e
	ln2Hi
	ln2Lo
	exp1
	exp2
	exp3
	exp4
	exp5
	one
	two
	tiny
	sign // −0
	plainLeast
	plainMost
)

// constants are laneConstants in memory, and in registers those that are read more than once.
type constants struct {
	asm
	rows           reg.Register
	one, two, sign reg.Register
}

func (g asm) constants() constants {
	c := constants{g, g.GP64(), g.YMM(), g.YMM(), g.YMM()}
	g.LEAQ(NewDataAddr(Symbol{Name: "·laneConstants"}, 0), c.rows)
	g.VMOVUPD(c.row(two), c.two)
	g.VMOVUPD(c.row(sign), c.sign)
	g.VMOVUPD(c.row(one), c.one)
	return c
}

func (c constants) row(i int) Mem { return lanes(at(c.rows), i) }

// An element is the type of a slice's elements: how four are read as float64 and written. A float32 is rounded as it is
// written and nowhere before.
type element struct {
	suffix string
	size   int
	load   func(asm, Mem, reg.VecVirtual)
	store  func(asm, reg.VecVirtual, Mem)
}

var (
	float32s = element{"32", 4,
		func(g asm, m Mem, y reg.VecVirtual) { g.VCVTPS2PD(m, y) },
		func(g asm, y reg.VecVirtual, m Mem) { g.VCVTPD2PSY(y, y.AsX()); g.VMOVUPS(y.AsX(), m) }}
	float64s = element{"64", 8,
		func(g asm, m Mem, y reg.VecVirtual) { g.VMOVUPD(m, y) },
		func(g asm, y reg.VecVirtual, m Mem) { g.VMOVUPD(y, m) }}
)

// slice applies f to elements, eight at a time, up to the first eight that are not all admitted, and returns how many
// these were.
func (g asm) slice(name string, of element, admit func(c constants, x []reg.VecVirtual) reg.Register, f func(c constants, x reg.Register) reg.VecVirtual) {
	g.function(name)
	dst, src, n, i := g.arg("dst"), g.arg("src"), g.arg("n"), g.GP64()
	g.XORQ(i, i)
	c := g.constants()

	g.align()
	g.Label("next")
	g.CMPQ(i, n)
	g.JGE(LabelRef("done"))
	x := g.ymms(2)
	for j, y := range x {
		of.load(g, at(src).Idx(i, uint8(of.size)).Offset(4*of.size*j), y)
	}
	all := g.GP32()
	g.VMOVMSKPD(admit(c, x), all)
	g.CMPL(all, Imm(0b1111))
	g.JNE(LabelRef("done"))
	for j, y := range x {
		of.store(g, f(c, y), at(dst).Idx(i, uint8(of.size)).Offset(4*of.size*j))
	}
	g.ADDQ(imm(8), i)
	g.JMP(LabelRef("next"))

	g.Label("done")
	g.Store(i, g.ReturnIndex(0))
	g.ret()
}

// plain tells in every lane whether both of x are from plainLeast to plainMost. No comparison is true of NaN.
func plain(c constants, x []reg.VecVirtual) reg.Register {
	within := make([]reg.VecVirtual, len(x))
	for i, x := range x {
		most := c.YMM()
		within[i] = c.YMM()
		c.VCMPPD(Imm(atLeast), c.row(plainLeast), x, within[i])
		c.VCMPPD(Imm(atMost), c.row(plainMost), x, most)
		c.VANDPD(most, within[i], within[i])
	}
	c.VANDPD(within[1], within[0], within[0])
	return within[0]
}

// magnitudes tells whether −|x| of both of x is plain: none is above 0.
func magnitudes(c constants, x []reg.VecVirtual) reg.Register {
	within := c.ymms(len(x))
	for i, y := range within {
		c.VORPD(c.sign, x[i], y)
	}
	for _, y := range within {
		c.VCMPPD(Imm(atLeast), c.row(plainLeast), y, y)
	}
	c.VANDPD(within[1], within[0], within[0])
	return within[0]
}

// exp is eˣ: x = k·ln2 + r with r = hi − lo, eʳ by a polynomial in t = r², scaled by 2ᵏ.
func (c constants) exp(x reg.Register) reg.VecVirtual {
	small, k, lo, hi, r := c.YMM(), c.YMM(), c.YMM(), c.YMM(), c.YMM()
	t, p, y := c.YMM(), c.YMM(), c.YMM()

	c.Comment("k is x·log₂e with half of x's sign, cut to an integer; then 2ᵏ, by its exponent.")
	c.VANDPD(c.sign, x, small)
	c.VORPD(c.row(half), small, small)
	c.VMULPD(c.row(log2e), x, k)
	c.VADDPD(small, k, k)
	c.VCVTTPD2DQY(k, k.AsX())
	c.VCVTDQ2PD(k.AsX(), lo)
	c.VPMOVSXDQ(k.AsX(), k)
	c.VPSLLQ(Imm(52), k, k)
	c.VPADDQ(c.one, k, k)

	c.Comment("hi = x − k·ln2Hi, lo = k·ln2Lo, r = hi − lo, t = r²")
	c.VMULPD(c.row(ln2Hi), lo, hi)
	c.VSUBPD(hi, x, hi)
	c.VMULPD(c.row(ln2Lo), lo, lo)
	c.VSUBPD(lo, hi, r)
	c.VMULPD(r, r, t)

	c.Comment("c = r − t·(exp1 + t·(exp2 + t·(exp3 + t·(exp4 + t·exp5))))")
	c.VMULPD(c.row(exp5), t, p)
	for _, i := range []int{exp4, exp3, exp2, exp1} {
		c.VADDPD(c.row(i), p, p)
		c.VMULPD(p, t, p)
	}
	c.VSUBPD(p, r, p)

	c.Comment("eʳ = 1 − ((lo − r·c/(2 − c)) − hi)")
	c.VMULPD(p, r, t)
	c.VSUBPD(p, c.two, p)
	c.VDIVPD(p, t, t)
	c.VSUBPD(t, lo, lo)
	c.VSUBPD(hi, lo, lo)
	c.VSUBPD(lo, c.one, lo)
	c.VMULPD(k, lo, y)

	c.Comment("1 + x where |x| is below tiny")
	c.VANDNPD(x, c.sign, small)
	c.VCMPPD(Imm(below), c.row(tiny), small, small)
	c.VADDPD(x, c.one, hi)
	c.VBLENDVPD(small, hi, y, y)
	return y
}

// sigmoid is σ(x): over 1+e, e = e^−|x|, stands 1 where x ≥ 0 and e elsewhere. For −0 the two are the same.
func (c constants) sigmoid(x reg.Register) reg.VecVirtual {
	magnitude, under := c.YMM(), c.YMM()
	c.VORPD(c.sign, x, magnitude)
	y := c.exp(magnitude)
	c.VADDPD(y, c.one, under)
	c.VBLENDVPD(x, y, c.one, y)
	c.VDIVPD(under, y, y)
	return y
}

// silu is x·σ(x).
func (c constants) silu(x reg.Register) reg.VecVirtual {
	y := c.sigmoid(x)
	c.VMULPD(y, x, y)
	return y
}
