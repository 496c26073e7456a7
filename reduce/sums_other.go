//go:build !amd64

package reduce

// vectorised is never set where there are no vector registers to use.
var vectorised bool

const noVectors = "reduce: no vector registers on this architecture"

func span16(x *float32, n int) (largest, least uint32) { panic(noVectors) }

func split16(x *float32, n int, beside float64) (high, low float64) { panic(noVectors) }

func lanes8(sums *[Lanes]float32, x *float32, n int) { panic(noVectors) }
