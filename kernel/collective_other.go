//go:build !amd64

package kernel

func sumRows32(acc *float32, rows *[]float32, k, lo, n, how int) { panic(noVectors) }

func sumRowsBF16(acc *float32, rows *[]float32, k, lo, n, how int) { panic(noVectors) }
