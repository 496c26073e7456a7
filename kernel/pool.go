package kernel

import (
	"runtime"
	"sync"

	"firstbit/libm"
)

// parallelFlops is the number of multiply-adds below which a product stays on
// its goroutine: handing work over costs a few microseconds.
const parallelFlops = 1 << 17

type rangeTask interface{ run(lo, hi int) }

type piece struct {
	task   rangeTask
	lo, hi int
	done   *sync.WaitGroup
}

var (
	workers   chan piece
	startOnce sync.Once
	groups    = sync.Pool{New: func() any { return new(sync.WaitGroup) }}
)

// parallel runs the task's n units over the processors Go may use. The units write
// disjoint results, so neither the split nor the order of the pieces reaches a bit.
// Workers live as long as the program, so that a product allocates nothing.
func parallel(t rangeTask, n int) {
	p := min(runtime.GOMAXPROCS(0), n)
	if p <= 1 {
		t.run(0, n)
		return
	}
	startOnce.Do(startWorkers)
	done := groups.Get().(*sync.WaitGroup)
	for i := 1; i < p; i++ {
		done.Add(1)
		workers <- piece{t, i * n / p, (i + 1) * n / p, done}
	}
	t.run(0, n/p)
	done.Wait()
	groups.Put(done)
}

func startWorkers() {
	workers = make(chan piece, 64)
	for range max(runtime.NumCPU(), runtime.GOMAXPROCS(0)) {
		go func() {
			for w := range workers {
				w.task.run(w.lo, w.hi)
				w.done.Done()
			}
		}()
	}
}

var products32, products64 sync.Pool

func productPool[T libm.Float]() *sync.Pool {
	var z T
	if _, wide := any(z).(float64); wide {
		return &products64
	}
	return &products32
}

func takeTask[T libm.Float]() *product[T] {
	if t, _ := productPool[T]().Get().(*product[T]); t != nil {
		return t
	}
	return new(product[T])
}

// release gives the packed panels and the task back, forgetting the caller's slices.
func (t *product[T]) release() {
	giveBack(t.panels)
	*t = product[T]{}
	productPool[T]().Put(t)
}
