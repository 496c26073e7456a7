//go:build !amd64

package kernel

func fused8(c *float32, sigA, expA, sigB, expB *int32, sums, terms int, k *fusedConstants) uint32 {
	panic(noVectors)
}
