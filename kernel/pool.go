package kernel

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"firstbit/libm"
)

// parallelFlops is the number of multiply-adds below which a product stays on
// its goroutine: handing work over costs a few microseconds.
const parallelFlops = 1 << 17

type rangeTask interface{ run(lo, hi int) }

// piece is some of a task's units.
type piece struct {
	task   rangeTask
	lo, hi int
	of     *pieces
}

// pieces are those of one task, under way.
type pieces struct {
	sync.WaitGroup
	mu     sync.Mutex
	failed *Failure // of the piece with the lowest units that panicked; nil: none did
}

// Failure is what a unit of work panicked with, on whichever goroutine that was.
type Failure struct {
	Value any
	Stack []byte // of the goroutine

	lo int
}

// Error is the value, and the stack on lines of its own.
func (f *Failure) Error() string { return fmt.Sprintf("%v\n\n%s", f.Value, f.Stack) }

var (
	workers   chan piece
	startOnce sync.Once
	groups    = sync.Pool{New: func() any { return new(pieces) }}
)

// parallel runs the task's n units over the processors Go may use. The units write
// disjoint results, so neither the split nor the order of the pieces reaches a bit.
// Workers live as long as the program, so that a product allocates nothing.
//
// A unit that panics ends its piece. Once the other pieces are over, so that nothing is written any more, the caller
// panics with the Failure of the lowest, whatever the number of processors.
func parallel(t rangeTask, n int) {
	p := min(runtime.GOMAXPROCS(0), n)
	if p <= 1 {
		t.run(0, n)
		return
	}
	share(t, n, p)
}

// share runs the task's n units in p pieces on as many goroutines.
func share(t rangeTask, n, p int) {
	startOnce.Do(startWorkers)
	all := groups.Get().(*pieces)
	all.Add(p)
	for i := 1; i < p; i++ {
		workers <- piece{t, i * n / p, (i + 1) * n / p, all}
	}
	piece{t, 0, n / p, all}.run()
	all.Wait()
	failed := all.failed
	all.failed = nil
	groups.Put(all)
	if failed != nil {
		panic(failed)
	}
}

// Spread is parallel for do.
func Spread(n int, do func(lo, hi int)) { parallel(rangeFunc(do), n) }

type rangeFunc func(lo, hi int)

func (f rangeFunc) run(lo, hi int) { f(lo, hi) }

func startWorkers() {
	workers = make(chan piece, 64)
	for range max(runtime.NumCPU(), runtime.GOMAXPROCS(0)) {
		go func() {
			for p := range workers {
				p.run()
			}
		}()
	}
}

func (p piece) run() {
	defer p.of.Done()
	defer p.keep()
	p.task.run(p.lo, p.hi)
}

// keep is deferred: it keeps what the piece panics with.
func (p piece) keep() {
	value := recover()
	if value == nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.of.failed == nil || p.lo < p.of.failed.lo {
		p.of.failed = &Failure{value, debug.Stack(), p.lo}
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
	GiveBack(t.panels)
	*t = product[T]{}
	productPool[T]().Put(t)
}
