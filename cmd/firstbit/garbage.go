package main

import (
	"math"
	"runtime/debug"

	"firstbit/machine"
)

// boundGarbage has the collector work harder before the heap, which may be half garbage, outgrows the memory that is left: whether a run fits then
// depends on what it keeps, as train.Config.Memory estimates. GOMEMLIMIT goes over it.
func boundGarbage() {
	if available, known := machine.Memory(); known && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(available - available/10)
	}
}
