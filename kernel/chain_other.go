//go:build !amd64

package kernel

// Neither is ever set where there are no vector tiles.
var vectorised, fusing bool

const noVectors = "kernel: no vector tiles on this architecture"

func tile6x16(c *float32, ldc int, a *float32, rowA, stepA int, b *float32, stepB int, n int, join bool) {
	panic(noVectors)
}

func tile6x16FMA(c *float32, ldc int, a *float32, rowA, stepA int, b *float32, stepB int, n int, join bool) {
	panic(noVectors)
}

func addTile6x16(c *float32, ldc int, tile *float32) { panic(noVectors) }

func pack16(dst, src *float32, step, n int) { panic(noVectors) }

func pack6(dst, src *float32, step, n int) { panic(noVectors) }

func transpose8(dst, src *float32, ld, n int) { panic(noVectors) }

func addRows8(dst, w *float32, sw int, x *float32, ld, n, columns int) { panic(noVectors) }

func addRows8FMA(dst, w *float32, sw int, x *float32, ld, n, columns int) { panic(noVectors) }
