package kernel

import (
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"

	"firstbit/libm"
)

// Race is how the contributions to a sum meet that several threads make at the same time. Which thread makes which, and which is first,
// the machine decides, so that the bits are another run's only by chance; Turns has those of the sum in sequence.
type Race uint8

// The ways.
const (
	Drawn  Race = iota // no thread races: the order is known before the sum begins, and one thread adds by it
	Atomic             // each contribution is added to memory, element by element, by compare-and-swap
	Turns              // writers are serialised: each waits until those before it have added theirs
	Local              // a thread adds up what it takes, and its sum is added when it has taken its last
	Steal              // Local, where each thread has a queue of what it is to take, and with an empty one takes from another's end
)

var raceNames = [...]string{Atomic: "atomic", Turns: "turns", Local: "local", Steal: "steal"}

// RaceNames lists the ways in which threads race.
func RaceNames() []string { return raceNames[Atomic:] }

// ParseRace reads one of RaceNames.
func ParseRace(s string) (Race, bool) {
	for i, name := range raceNames {
		if name == s && s != "" {
			return Race(i), true
		}
	}
	return Drawn, false
}

// String is what ParseRace reads.
func (r Race) String() string { return raceNames[r] }

// racePieces is the number of contributions that each thread makes of a sum whose values arrive one by one.
const racePieces = 4

// raceLeast is the number of additions below which a sum stays on its goroutine.
const raceLeast = 1 << 14

// Raced tells whether threads share a sum of f.N values of so many additions each.
func (f Fold) Raced(each int) bool {
	return f.Race != Drawn && f.N > 1 && f.N*each >= raceLeast && f.simple()
}

// Racers is the number of threads that a Deal of n tasks has: two even on one processor, which takes them in turns of its own.
func Racers(n int) int { return min(max(2, runtime.GOMAXPROCS(0)), n) }

// Deal runs tasks 0 to n on threads, which take them as r says, and tells each which thread it is on. After its last task a thread runs end.
func Deal(r Race, n int, do func(thread, task int), end func(thread int)) {
	p := Racers(n)
	if p == 0 {
		return
	}
	d := &dealer{do: do, end: end, n: n}
	if r == Steal {
		d.queues = make([]queue, p)
		for i := range d.queues {
			d.queues[i].set(i*n/p, (i+1)*n/p)
		}
	}
	share(d, p, p, 1)
}

// dealer is a Deal under way.
type dealer struct {
	do     func(thread, task int)
	end    func(thread int)
	n      int
	next   atomic.Int64
	queues []queue // nil: tasks are taken in order
}

func (d *dealer) run(lo, hi int) {
	for thread := lo; thread < hi; thread++ {
		for task := d.take(thread); task >= 0; task = d.take(thread) {
			d.do(thread, task)
			GiveWay()
		}
		d.end(thread)
	}
}

// GiveWay ends the time slice of a thread at random, where threads have one processor: the runtime goes over to another thread only every 10 ms,
// so that one would do all the work. It chooses at random among the cases of a select that are ready. On several processors it does nothing.
func GiveWay() {
	if runtime.GOMAXPROCS(0) > 1 {
		return
	}
	select {
	case <-heads:
		runtime.Gosched()
	case <-tails:
	}
}

var heads, tails = closed(), closed()

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// take is the next task of a thread; −1: none is left.
func (d *dealer) take(thread int) int {
	if d.queues == nil {
		if task := int(d.next.Add(1)) - 1; task < d.n {
			return task
		}
		return -1
	}
	if task := d.queues[thread].pop(false); task >= 0 {
		return task
	}
	for i := 1; i < len(d.queues); i++ {
		if task := d.queues[(thread+i)%len(d.queues)].pop(true); task >= 0 {
			return task
		}
	}
	return -1
}

// queue is a run of tasks, of which its owner takes the first and thieves the last. Its own line of the cache keeps threads apart.
type queue struct {
	bounds atomic.Uint64
	_      [56]byte
}

func (q *queue) set(lo, hi int) { q.bounds.Store(uint64(lo)<<32 | uint64(hi)) }

// pop takes the first task, or the last; −1: there is none.
func (q *queue) pop(last bool) int {
	for {
		old := q.bounds.Load()
		lo, hi := int(old>>32), int(uint32(old))
		if lo >= hi {
			return -1
		}
		task, now := lo, uint64(lo+1)<<32|uint64(hi)
		if last {
			task, now = hi-1, uint64(lo)<<32|uint64(hi-1)
		}
		if q.bounds.CompareAndSwap(old, now) {
			return task
		}
	}
}

// AddAtomic adds x to dst element by element, each by compare-and-swap on its bits.
func AddAtomic[T libm.Float](dst, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		if p, ok := any(&dst[i]).(*float32); ok {
			addBits32((*atomic.Uint32)(unsafe.Pointer(p)), float32(v))
			continue
		}
		addBits64((*atomic.Uint64)(unsafe.Pointer(&dst[i])), float64(v))
	}
}

func addBits32(p *atomic.Uint32, v float32) {
	for {
		old := p.Load()
		if p.CompareAndSwap(old, math.Float32bits(math.Float32frombits(old)+v)) {
			return
		}
	}
}

func addBits64(p *atomic.Uint64, v float64) {
	for {
		old := p.Load()
		if p.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}
