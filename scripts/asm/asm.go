package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vector is the bytes of a register of eight float32 or four float64.
const vector = 32

// What comparisons ask. Only unordered, whether one of two is NaN, is true of NaN.
const (
	below     = 1
	atMost    = 2
	unordered = 3
	atLeast   = 13
)

// asm is a file of assembly in the making.
type asm struct{ *build.Context }

// function begins a function, which its package declares.
func (g asm) function(name string) {
	g.Implement(name)
	g.Attributes(attr.NOSPLIT)
}

// arg loads an argument of eight bytes.
func (g asm) arg(name string) reg.Register { return g.Load(g.Param(name), g.GP64()) }

// ret ends a function that has written to the upper halves of vector registers, which slow down code that knows lower
// halves only.
func (g asm) ret() {
	g.VZEROUPPER()
	g.RET()
}

// toBytes turns counts of float32 into counts of bytes.
func (g asm) toBytes(counts ...reg.Register) {
	for _, c := range counts {
		g.SHLQ(Imm(2), c)
	}
}

// ymms are n vector registers.
func (g asm) ymms(n int) []reg.VecVirtual {
	y := make([]reg.VecVirtual, n)
	for i := range y {
		y[i] = g.YMM()
	}
	return y
}

// negZero puts −0, where sums start, in every lane.
func (g asm) negZero(y reg.Register) {
	g.VPCMPEQD(y, y, y)
	g.VPSLLD(Imm(31), y, y)
}

// align makes a loop begin where the processor begins to read instructions.
func (g asm) align() {
	g.Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []Op{Imm(32)}})
}

// countDown runs body until n, a multiple of step above 0, is 0.
func (g asm) countDown(label string, n reg.Register, step int, body func()) {
	g.Label(label)
	body()
	if step == 1 {
		g.DECQ(n)
	} else {
		g.SUBQ(imm(step), n)
	}
	g.JNZ(LabelRef(label))
}

// imm is a number as instructions of integers take it: of one byte, its sign included, or of four.
func imm(n int) Op {
	if n < 128 {
		return Imm(uint64(n))
	}
	return U32(n)
}

// at is what lies at a pointer.
func at(pointer reg.Register) Mem { return Mem{Base: pointer} }

// lanes is the i-th vector from m on.
func lanes(m Mem, i int) Mem { return m.Offset(i * vector) }

// onlyAVX2 fails if a function needs more than the sixteen vector registers of AVX2: avo goes on with those of AVX-512.
func onlyAVX2(f *ir.Function) error {
	for _, i := range f.Instructions() {
		for _, r := range i.Registers() {
			if p := reg.ToPhysical(r); p.Kind() == reg.KindVector && p.PhysicalIndex() > 15 {
				return fmt.Errorf("%s: more than sixteen vector registers: %s in %s", f.Name, p.Asm(), i.Opcode)
			}
		}
	}
	return nil
}
