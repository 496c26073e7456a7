//go:build !amd64

package kernel

// vectorised is never set where there are no vector tiles.
var vectorised bool

func tile6x16(c *float32, ldc int, a *float32, rowA, stepA int, b *float32, stepB int, n int, join bool) {
	panic("kernel: no vector tiles on this architecture")
}

func addTile6x16(c *float32, ldc int, tile *float32) {
	panic("kernel: no vector tiles on this architecture")
}
