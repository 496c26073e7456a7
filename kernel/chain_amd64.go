package kernel

import "golang.org/x/sys/cpu"

// vectorised says whether the functions below may be called. Tests clear it.
var vectorised = cpu.X86.HasAVX2

// fusing says that of the functions named FMA.
var fusing = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// tile6x16 runs one chain of n products on a tile of c, from −0 or, with join, added to what the
// tile holds. Element (r, s) of c is c[r·ldc + s]; product k multiplies a[r·rowA + k·stepA]
// by b[k·stepB + s].
//
//go:noescape
func tile6x16(c *float32, ldc int, a *float32, rowA, stepA int, b *float32, stepB int, n int, join bool)

// tile6x16FMA is tile6x16 with one rounding of each product and its sum.
//
//go:noescape
func tile6x16FMA(c *float32, ldc int, a *float32, rowA, stepA int, b *float32, stepB int, n int, join bool)

// addTile6x16 adds a tile of rows of sixteen elements to a tile of c.
//
//go:noescape
func addTile6x16(c *float32, ldc int, tile *float32)

// pack16 lays n rows of sixteen elements down one after another, n ≥ 1.
//
//go:noescape
func pack16(dst, src *float32, step, n int)

// pack6 lays n rows of six elements down one after another, n ≥ 1.
//
//go:noescape
func pack6(dst, src *float32, step, n int)

// transpose8 lays eight rows of n elements down as columns of rows of sixteen, n a multiple of 4
// above 0.
//
//go:noescape
func transpose8(dst, src *float32, ld, n int)

// addRows8 is addRows over columns elements of dst, a multiple of 8, with n ≥ 1.
//
//go:noescape
func addRows8(dst, w *float32, sw int, x *float32, ld, n, columns int)

// addRows8FMA is addRows8 with one rounding of each product and its sum.
//
//go:noescape
func addRows8FMA(dst, w *float32, sw int, x *float32, ld, n, columns int)
