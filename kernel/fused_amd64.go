package kernel

// fused8 runs a chain of so many fused sums of terms products each on eight columns: the accumulators start at +0 and are left in c.
// Product i multiplies sigA[i] by sigB[8·i + column], whose exponents are expA[i] and expB[8·i + column]; terms is even. k are the constants
// of fusedLanes. It returns a bit for each column whose sums were zero or normal numbers all along: the others' results are not to be used.
//
//go:noescape
func fused8(c *float32, sigA, expA, sigB, expB *int32, sums, terms int, k *fusedConstants) uint32
