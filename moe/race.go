package moe

import (
	"runtime"
	"sync"
	"sync/atomic"

	"firstbit/kernel"
	"firstbit/libm"
)

// dprobRace is groupedDProb where threads share the tiles, and bring what each adds to a row together by a kernel.Race.
type dprobRace[T libm.Float] struct {
	dprob, dh, acc, h, p []T
	cols                 int // of h
	tiling
	tiles   []tile
	dynamic bool // a thread walks every other of its tiles from the end, as a CTA does
	way     kernel.Race

	hands []hand[T]      // of each thread
	turns []atomic.Int32 // tiles that are added, of each row block
	mu    sync.Mutex
}

// hand is what a thread has for itself.
type hand[T libm.Float] struct {
	subs  subTiles
	part  []T // of a tile
	sum   []T // of all rows, for threads that add up what they take; nil: it has taken nothing
	taken int // tiles
}

// run is the epilogue; n is the order of a sub-tile.
func (d *dprobRace[T]) run(n func(n int) kernel.Fold) {
	blocks := 0
	if len(d.tiles) > 0 {
		blocks = d.tiles[len(d.tiles)-1].Rows + 1
	}
	d.turns, d.hands = make([]atomic.Int32, blocks), make([]hand[T], kernel.Racers(len(d.tiles)))
	for i := range d.hands {
		d.hands[i] = hand[T]{subs: subTiles{of: n}, part: make([]T, d.M)}
	}
	kernel.Fill(d.dprob, kernel.Negzero[T]())
	kernel.Deal(d.way, len(d.tiles), d.take, d.end)
}

func (d *dprobRace[T]) take(thread, task int) {
	t, own, f := d.tiles[task], &d.hands[thread], d.cols
	if d.dynamic {
		t.Reverse = own.taken%2 == 1
	}
	own.taken++
	part := own.part[:t.Hi-t.Lo]
	for i := range part {
		r := t.Lo + i
		part[i] = dprobTile(d.h[r*f:][:f], d.acc[r*f:][:f], d.dh[r*f:][:f], d.p[r], d.tiling, t, &own.subs)
	}
	kernel.GiveWay()
	switch d.way {
	case kernel.Atomic:
		kernel.AddAtomic(d.dprob[t.Lo:t.Hi], part)
	case kernel.Turns:
		for turn := &d.turns[t.Rows]; int(turn.Load()) != t.Col; {
			runtime.Gosched()
		}
		addTo(d.dprob[t.Lo:t.Hi], part)
		d.turns[t.Rows].Add(1)
	default:
		if own.sum == nil {
			own.sum = make([]T, len(d.dprob))
			kernel.Fill(own.sum, kernel.Negzero[T]())
		}
		addTo(own.sum[t.Lo:t.Hi], part)
	}
}

func (d *dprobRace[T]) end(thread int) {
	if sum := d.hands[thread].sum; sum != nil {
		d.mu.Lock()
		addTo(d.dprob, sum)
		d.mu.Unlock()
	}
}

func addTo[T libm.Float](dst, x []T) {
	for i, v := range x[:len(dst)] {
		dst[i] += v
	}
}
