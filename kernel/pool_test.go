package kernel

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// However many processors share the work, what panics is its lowest unit, when nothing runs any more, and the next task finds the pool as it was.
func TestPanicsComeFromTheLowestUnit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const n = 64
	for procs := 1; procs <= 5; procs++ {
		runtime.GOMAXPROCS(procs)
		for _, from := range []int{0, 20, n - 1, n} {
			var running, done atomic.Int32
			caught := func() (p any) {
				defer func() { p = recover() }()
				Spread(n, func(lo, hi int) {
					defer running.Add(-1)
					running.Add(1)
					for i := lo; i < hi; i++ {
						if i >= from {
							panic(i)
						}
						done.Add(1)
					}
				})
				return nil
			}()
			require.Zero(t, running.Load())
			if from == n { // the control: nothing panics
				require.Nil(t, caught)
				require.EqualValues(t, n, done.Load())
				continue
			}
			if f, ok := caught.(*Failure); ok {
				require.Contains(t, f.Error(), "pool_test.go")
				caught = f.Value
			}
			require.Equal(t, from, caught, "%d processors", procs)
		}
	}
}
