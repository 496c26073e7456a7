package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What the constants of fused8 stand for: a vector each, in this order.
const (
	fusedMagnitude = iota // of a float32
	fusedFraction         // its fraction
	fusedLeading          // the bit that a normal number has before it
	fusedOne              //
	fusedBias             // of its exponent
	fusedLeft             // how far a significand of the accumulator is shifted to count what an addend keeps
	fusedRight            //
	fusedKept             // significant bits of the result
	fusedLeast            // the exponents between which a result is normal
	fusedMost             //
	fusedScale            // what makes an exponent that of the last bit an addend keeps, with its bias
	fusedMinus            // the sign of a float32
	fusedLow              // the lower half of a lane
	fusedHalf             // 2¹⁶ as a float32
)

// fused writes chains of a tensor core's fused sums.
func fused(g asm) {
	g.function("fused8")
	c := g.arg("c")
	sigA, expA, sigB, expB := g.arg("sigA"), g.arg("expA"), g.arg("sigB"), g.arg("expB")
	sums, terms := g.arg("sums"), g.arg("terms")
	k := g.arg("k")
	constant := func(i int) Mem { return lanes(at(k), i) }

	acc, good := g.YMM(), g.YMM()
	g.VPXOR(acc, acc, acc)
	g.VPCMPEQD(good, good, good)

	g.countDown("sum", sums, 1, func() {
		g.Comment("The accumulator's exponent, least for zero and subnormal numbers, and its significand.")
		exp, sig, top := g.YMM(), g.YMM(), g.YMM()
		g.VPAND(constant(fusedMagnitude), acc, sig)
		g.VPSRLD(Imm(23), sig, exp)
		normal, zero := g.YMM(), g.YMM()
		g.VPXOR(zero, zero, zero)
		g.VPCMPGTD(zero, exp, normal)
		g.VPAND(constant(fusedLeading), normal, normal)
		g.VPAND(constant(fusedFraction), sig, sig)
		g.VPOR(normal, sig, sig)
		g.VPMAXSD(constant(fusedOne), exp, exp)
		g.VPSUBD(constant(fusedBias), exp, exp)
		g.VPSLLVD(constant(fusedLeft), sig, sig)
		g.VPSRLVD(constant(fusedRight), sig, sig)

		g.Comment("The largest exponent.")
		g.VMOVDQA(exp, top)
		n, a, b := g.GP64(), g.GP64(), g.GP64()
		g.MOVQ(terms, n)
		g.MOVQ(expA, a)
		g.MOVQ(expB, b)
		g.countDown("top", n, 2, func() {
			for i := range 2 {
				e := g.YMM()
				g.VPBROADCASTD(at(a).Offset(4*i), e)
				g.VPADDD(lanes(at(b), i), e, e)
				g.VPMAXSD(e, top, top)
			}
			g.ADDQ(imm(8), a)
			g.ADDQ(imm(2*vector), b)
		})

		g.Comment("Addends, cut: of sums with half of them each neither leaves its lane.")
		g.VPSUBD(exp, top, exp)
		g.VPSRLVD(exp, sig, sig)
		part := []reg.VecVirtual{g.YMM(), g.YMM()}
		g.VPSIGND(acc, sig, part[0])
		g.VPXOR(part[1], part[1], part[1])
		g.MOVQ(terms, n)
		g.countDown("cut", n, 2, func() {
			for i := range 2 {
				p, gap, magnitude := g.YMM(), g.YMM(), g.YMM()
				g.VPBROADCASTD(at(sigA).Offset(4*i), p)
				g.VPMADDWD(lanes(at(sigB), i), p, p)
				g.VPBROADCASTD(at(expA).Offset(4*i), gap)
				g.VPADDD(lanes(at(expB), i), gap, gap)
				g.VPSUBD(gap, top, gap)
				g.VPABSD(p, magnitude)
				g.VPSRLVD(gap, magnitude, magnitude)
				g.VPSIGND(p, magnitude, magnitude)
				g.VPADDD(magnitude, part[i], part[i])
			}
			for _, p := range []reg.Register{sigA, expA} {
				g.ADDQ(imm(8), p)
			}
			for _, p := range []reg.Register{sigB, expB} {
				g.ADDQ(imm(2*vector), p)
			}
		})
		g.round(constant, part, top, acc, good)
	})
	g.VMOVUPS(acc, at(c))
	mask := g.GP32()
	g.VMOVMSKPS(good, mask)
	g.Store(mask, g.ReturnIndex(0))
	g.ret()
}

// round makes the accumulator of the parts of a sum, and takes from good the lanes whose result is not normal.
func (g asm) round(constant func(int) Mem, part []reg.VecVirtual, top, acc, good reg.Register) {
	g.Comment("The sum by sign and magnitude, which takes all 32 bits.")
	zero, plus, negative, sign, m := g.YMM(), g.YMM(), g.YMM(), g.YMM(), g.YMM()
	g.VPXOR(zero, zero, zero)
	g.VPMAXSD(zero, part[0], plus)
	g.VPMAXSD(zero, part[1], m)
	g.VPADDD(m, plus, plus)
	g.VPSUBD(part[0], plus, negative)
	g.VPSUBD(part[1], negative, negative)
	g.VPMAXUD(negative, plus, m)
	g.VPCMPEQD(m, plus, sign)
	g.VPANDN(constant(fusedMinus), sign, sign)
	g.VPMINUD(negative, plus, plus)
	g.VPSUBD(plus, m, m)

	g.Comment("What lies behind the bits that stay is cut off.")
	behind, shifted := g.YMM(), g.YMM()
	g.VPSRLVD(constant(fusedKept), m, behind)
	for _, n := range []uint64{1, 2, 4} {
		g.VPSRLD(Imm(n), behind, shifted)
		g.VPOR(shifted, behind, behind)
	}
	g.VPANDN(m, behind, m)

	g.Comment("Both halves as float32, whose sum is exact, times a power of two.")
	lower, exp := g.YMM(), g.YMM()
	g.VPAND(constant(fusedLow), m, lower)
	g.VCVTDQ2PS(lower, lower)
	g.VPSRLD(Imm(16), m, shifted)
	g.VCVTDQ2PS(shifted, shifted)
	g.VMULPS(constant(fusedHalf), shifted, shifted)
	g.VADDPS(lower, shifted, shifted)
	g.VPMAXSD(constant(fusedLeast), top, exp)
	g.VPMINSD(constant(fusedMost), exp, exp)
	g.VPCMPEQD(zero, m, m)
	g.VPCMPEQD(exp, top, top)
	g.VPOR(m, top, top)
	g.VPAND(top, good, good)
	g.VPADDD(constant(fusedScale), exp, exp)
	g.VPSLLD(Imm(23), exp, exp)
	g.VMULPS(exp, shifted, acc)
	g.VPOR(sign, acc, acc)
}
