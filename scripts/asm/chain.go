package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// chain writes the inner loops of products. Each product is rounded before it is added, VMULPS and VADDPS, except in what is named FMA, where
// no product is. Columns are lanes, so every sum is added in the order of its chain.
func chain(g asm) {
	g.tile("tile6x16", asm.addProducts)
	g.tile("tile6x16FMA", asm.fuseProducts)
	g.addTile()
	g.pack16()
	g.pack6()
	g.transpose()
	g.addRows("addRows8", asm.addProduct)
	g.addRows("addRows8FMA", asm.fuseProduct)
}

// The extents of a tile: its rows, its columns, the vectors of a row.
const (
	tileRows    = 6
	tileColumns = 16
	tileVectors = tileColumns * 4 / vector
)

// rows are the addresses of rows that lie stride bytes apart. An address has no factor of 3 or 5, so every third row has
// a pointer of its own.
type rows struct {
	every3 []reg.Register
	stride reg.Register
}

func (r rows) row(i int) Mem {
	m := at(r.every3[i/3])
	if i%3 > 0 {
		m = m.Idx(r.stride, uint8(i%3))
	}
	return m
}

// tileOf is the rows of a tile.
func (g asm) tileOf(first, stride reg.Register) rows {
	fourth := g.GP64()
	g.LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, fourth)
	g.ADDQ(first, fourth)
	return rows{[]reg.Register{first, fourth}, stride}
}

// tile keeps a tile of c in twelve of sixteen registers, and adds to it one element of each row of a times a row of b.
func (g asm) tile(name string, add func(g asm, a Mem, b, sum []reg.VecVirtual)) {
	g.function(name)
	firstC, strideC := g.arg("c"), g.arg("ldc")
	firstA, strideA, stepA := g.arg("a"), g.arg("rowA"), g.arg("stepA")
	b, stepB := g.arg("b"), g.arg("stepB")
	n := g.arg("n")
	g.toBytes(strideA, stepA, strideC, stepB)
	a, c := g.tileOf(firstA, strideA), g.tileOf(firstC, strideC)

	g.Comment("A tile is six rows of sixteen columns, in lanes; sums start at −0.")
	var sums [tileRows][]reg.VecVirtual
	for r := range sums {
		sums[r] = g.ymms(tileVectors)
	}
	g.negZero(sums[0][0])
	for i := 1; i < tileRows*tileVectors; i++ {
		g.VMOVAPS(sums[0][0], sums[i/tileVectors][i%tileVectors])
	}
	g.TESTQ(n, n)
	g.JZ(LabelRef("summed"))

	g.align()
	g.countDown("next", n, 1, func() {
		right := g.ymms(tileVectors)
		for i, y := range right {
			g.VMOVUPS(lanes(at(b), i), y)
		}
		for r, sum := range sums {
			add(g, a.row(r), right, sum)
		}
		for _, p := range a.every3 {
			g.ADDQ(stepA, p)
		}
		g.ADDQ(stepB, b)
	})

	g.Label("summed")
	join := g.Load(g.Param("join"), g.GP32())
	g.TESTL(join, join)
	g.JZ(LabelRef("store"))
	for r, sum := range sums {
		for i, y := range sum {
			g.VADDPS(lanes(c.row(r), i), y, y)
		}
	}

	g.Label("store")
	for r, sum := range sums {
		for i, y := range sum {
			g.VMOVUPS(y, lanes(c.row(r), i))
		}
	}
	g.ret()
}

// addProducts adds one element of a times a row of b. The last product takes the place of the element, since no
// register is left.
func (g asm) addProducts(a Mem, b, sum []reg.VecVirtual) {
	element, product := g.YMM(), g.YMM()
	g.VBROADCASTSS(a, element)
	for i := range b {
		if i == len(b)-1 {
			product = element
		}
		g.VMULPS(b[i], element, product)
		g.VADDPS(product, sum[i], sum[i])
	}
}

// fuseProducts is addProducts with one rounding of each product and its sum.
func (g asm) fuseProducts(a Mem, b, sum []reg.VecVirtual) {
	element := g.YMM()
	g.VBROADCASTSS(a, element)
	for i := range b {
		g.VFMADD231PS(b[i], element, sum[i])
	}
}

func (g asm) addTile() {
	g.function("addTile6x16")
	first, stride, tile := g.arg("c"), g.arg("ldc"), g.arg("tile")
	g.toBytes(stride)
	c := g.tileOf(first, stride)
	for r := range tileRows {
		sum := g.ymms(tileVectors)
		for i, y := range sum {
			g.VMOVUPS(lanes(c.row(r), i), y)
		}
		for i, y := range sum {
			g.VADDPS(lanes(at(tile), r*tileVectors+i), y, y)
		}
		for i, y := range sum {
			g.VMOVUPS(y, lanes(c.row(r), i))
		}
	}
	g.ret()
}

func (g asm) pack16() {
	g.function("pack16")
	dst, src, step, n := g.arg("dst"), g.arg("src"), g.arg("step"), g.arg("n")
	g.toBytes(step)
	g.countDown("next", n, 1, func() {
		row := g.ymms(tileVectors)
		for i, y := range row {
			g.VMOVUPS(lanes(at(src), i), y)
		}
		for i, y := range row {
			g.VMOVUPS(y, lanes(at(dst), i))
		}
		g.ADDQ(step, src)
		g.ADDQ(imm(tileColumns*4), dst)
	})
	g.ret()
}

// pack6 moves six elements as four in a vector and two in an integer.
func (g asm) pack6() {
	g.function("pack6")
	dst, src, step, n := g.arg("dst"), g.arg("src"), g.arg("step"), g.arg("n")
	g.toBytes(step)
	g.countDown("next", n, 1, func() {
		four, two := g.XMM(), g.GP64()
		g.VMOVUPS(at(src), four)
		g.MOVQ(at(src).Offset(16), two)
		g.VMOVUPS(four, at(dst))
		g.MOVQ(two, at(dst).Offset(16))
		g.ADDQ(step, src)
		g.ADDQ(imm(tileRows*4), dst)
	})
	g.RET()
}

// transpose takes a square of four by four in each half of the registers: rows 0 to 3 in the lower, 4 to 7 in the upper.
func (g asm) transpose() {
	g.function("transpose8")
	dst, first, stride, n := g.arg("dst"), g.arg("src"), g.arg("ld"), g.arg("n")
	g.toBytes(stride)
	stride3, fourth, seventh := g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	g.LEAQ(at(first).Idx(stride3, 1), fourth)
	g.LEAQ(at(fourth).Idx(stride3, 1), seventh)
	src := rows{[]reg.Register{first, fourth, seventh}, stride}
	g.SHRQ(Imm(2), n)

	g.countDown("next", n, 1, func() {
		y := g.ymms(8)
		for r := range 4 {
			g.VMOVUPS(src.row(r), y[r].AsX())
			g.VINSERTF128(Imm(1), src.row(r+4), y[r], y[r])
		}
		// Pairs of rows, then pairs of pairs: column j of the four rows is then in y[j].
		g.VUNPCKLPS(y[1], y[0], y[4])
		g.VUNPCKHPS(y[1], y[0], y[5])
		g.VUNPCKLPS(y[3], y[2], y[6])
		g.VUNPCKHPS(y[3], y[2], y[7])
		g.VUNPCKLPD(y[6], y[4], y[0])
		g.VUNPCKHPD(y[6], y[4], y[1])
		g.VUNPCKLPD(y[7], y[5], y[2])
		g.VUNPCKHPD(y[7], y[5], y[3])
		for j := range 4 {
			g.VMOVUPS(y[j], at(dst).Offset(j*tileColumns*4))
		}
		for _, p := range src.every3 {
			g.ADDQ(imm(16), p)
		}
		g.ADDQ(imm(4*tileColumns*4), dst)
	})
	g.ret()
}

// addRows goes through dst in strips of columns: of four vectors while there are as many, then of two and of one.
func (g asm) addRows(name string, add func(g asm, x Mem, w, sum reg.VecVirtual)) {
	g.function(name)
	dst, weights, stepW := g.arg("dst"), g.arg("w"), g.arg("sw")
	x, ld, n, columns := g.arg("x"), g.arg("ld"), g.arg("n"), g.arg("columns")
	g.toBytes(stepW, ld)
	strip := func(name, after string, vectors int) {
		g.Label(name)
		g.CMPQ(columns, imm(vectors*8))
		g.JLT(LabelRef(after))
		sum := g.ymms(vectors)
		for i, y := range sum {
			g.VMOVUPS(lanes(at(dst), i), y)
		}
		weight, row, left := g.GP64(), g.GP64(), g.GP64()
		g.MOVQ(weights, weight)
		g.MOVQ(x, row)
		g.MOVQ(n, left)
		g.countDown(name+"Row", left, 1, func() {
			w := g.YMM()
			g.VBROADCASTSS(at(weight), w)
			for i, y := range sum {
				add(g, lanes(at(row), i), w, y)
			}
			g.ADDQ(stepW, weight)
			g.ADDQ(ld, row)
		})
		for i, y := range sum {
			g.VMOVUPS(y, lanes(at(dst), i))
		}
		if vectors > 1 {
			g.ADDQ(imm(vectors*vector), dst)
			g.ADDQ(imm(vectors*vector), x)
			g.SUBQ(imm(vectors*8), columns)
		}
	}
	strip("wide", "middle", 4)
	g.JMP(LabelRef("wide"))
	strip("middle", "narrow", 2)
	strip("narrow", "done", 1)
	g.Label("done")
	g.ret()
}

func (g asm) addProduct(x Mem, w, sum reg.VecVirtual) {
	product := g.YMM()
	g.VMULPS(x, w, product)
	g.VADDPS(product, sum, sum)
}

func (g asm) fuseProduct(x Mem, w, sum reg.VecVirtual) { g.VFMADD231PS(x, w, sum) }
