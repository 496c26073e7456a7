//go:build !amd64

package libm

// vectorised is never set where there are no vector registers to use.
var vectorised bool

const noVectors = "libm: no vector registers on this architecture"

func exp32(dst, src *float32, n int) int { panic(noVectors) }

func exp64(dst, src *float64, n int) int { panic(noVectors) }

func sigmoid32(dst, src *float32, n int) int { panic(noVectors) }

func sigmoid64(dst, src *float64, n int) int { panic(noVectors) }

func silu32(dst, src *float32, n int) int { panic(noVectors) }

func silu64(dst, src *float64, n int) int { panic(noVectors) }
