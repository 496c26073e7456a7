package kernel

import "golang.org/x/sys/cpu"

// vectorised says whether tile6x16 may be called. Tests clear it.
var vectorised = cpu.X86.HasAVX2

// tile6x16 runs one chain of n products on a tile of c, from −0 or, with join, added to what the
// tile holds. Element (r, s) of c is c[r·ldc + s]; product k multiplies a[r·rowA + k·stepA]
// by b[k·stepB + s].
//
//go:noescape
func tile6x16(c *float32, ldc int, a *float32, rowA, stepA int, b *float32, stepB int, n int, join bool)

// addTile6x16 adds a tile of rows of sixteen elements to a tile of c.
//
//go:noescape
func addTile6x16(c *float32, ldc int, tile *float32)
