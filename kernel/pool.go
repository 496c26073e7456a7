package kernel

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"firstbit/libm"
)

// parallelFlops is the number of multiply-adds below which a product stays on
// its goroutine: handing work over costs a few microseconds.
const parallelFlops = 1 << 17

type rangeTask interface{ run(lo, hi int) }

// pieces are those of one task under way, which goroutines take as they come to them.
type pieces struct {
	sync.WaitGroup
	task   rangeTask
	n      int          // units
	each   int          // of a piece
	next   atomic.Int64 // the first unit that nobody has taken
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
	workers   chan *pieces
	startOnce sync.Once
	groups    = sync.Pool{New: func() any { return new(pieces) }}
)

// parallel runs the task's n units over the processors Go may use. The units write
// disjoint results, so neither the split nor the order of the pieces reaches a bit.
// Workers live as long as the program, so that a product allocates nothing.
//
// A unit that panics ends its piece, and its goroutine takes no more. Once the other pieces are over, so that nothing is written any more, the caller
// panics with the Failure of the lowest, whatever the number of processors.
func parallel(t rangeTask, n int) {
	p := min(runtime.GOMAXPROCS(0), n)
	if p <= 1 {
		t.run(0, n)
		return
	}
	share(t, n, p, max(1, n/(p*piecesEach)))
}

// piecesEach is how many pieces there are for each goroutine at least: one that comes late, or is slow, takes fewer.
const piecesEach = 4

// share runs the task's n units on p goroutines, so many at a time.
func share(t rangeTask, n, p, each int) {
	startOnce.Do(startWorkers)
	all := groups.Get().(*pieces)
	all.task, all.n, all.each = t, n, each
	all.next.Store(0)
	all.Add(p)
	for range p - 1 {
		workers <- all
	}
	all.run()
	all.Wait()
	failed := all.failed
	all.task, all.failed = nil, nil
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
	workers = make(chan *pieces, 64)
	for range max(runtime.NumCPU(), runtime.GOMAXPROCS(0)) {
		go func() {
			for p := range workers {
				p.run()
			}
		}()
	}
}

// run takes pieces until there are none. The lowest unit that panics is taken, whoever panics before: units are taken in order.
func (p *pieces) run() {
	lo := 0
	defer p.Done()
	defer func() {
		if value := recover(); value != nil {
			p.keep(value, lo)
		}
	}()
	for {
		if lo = int(p.next.Add(int64(p.each))) - p.each; lo >= p.n {
			return
		}
		p.task.run(lo, min(lo+p.each, p.n))
	}
}

// keep keeps what the piece panics with that begins at unit lo.
func (p *pieces) keep(value any, lo int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil || lo < p.failed.lo {
		p.failed = &Failure{value, debug.Stack(), lo}
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
