//go:build !amd64

package lowp

// vectorised is never set where there are no vector registers to use.
var vectorised bool

const noVectors = "lowp: no vector registers on this architecture"

func xor16(x *float32, n int) (xor uint64, nan bool) { panic(noVectors) }

func upperHalves16(dst *byte, x *float32, n int) (odd bool) { panic(noVectors) }
