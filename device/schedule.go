package device

import (
	"strconv"
	"strings"
	"sync"

	"firstbit/kernel"
	"firstbit/rng"
)

// Schedule decides arrival: the order in which tiles, CTAs, ranks and
// microbatches come to a sum that adds whatever comes first. It is a pure function of
// (schedule seed, call ID), so that a race can be replayed; no training stream is drawn from.
type Schedule struct {
	Seed uint64
	Real bool // use the machine's own races instead; not replayable

	// Race has the threads of the machine share those sums whose kernels can be shared; Drawn: what arrives races for a lock, and one
	// thread adds in the order that comes of it.
	Race kernel.Race
}

// ParseSchedule reads a seed, "real", or "real:" with one of kernel.RaceNames.
func ParseSchedule(s string) (Schedule, bool) {
	if s == "real" {
		return Schedule{Real: true}, true
	}
	if way, ok := strings.CutPrefix(s, "real:"); ok {
		race, ok := kernel.ParseRace(way)
		return Schedule{Real: true, Race: race}, ok
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	return Schedule{Seed: seed}, err == nil
}

// String is what ParseSchedule reads.
func (s Schedule) String() string {
	switch {
	case s.Real && s.Race != kernel.Drawn:
		return "real:" + s.Race.String()
	case s.Real:
		return "real"
	}
	return strconv.FormatUint(s.Seed, 10)
}

// Arrival returns the order in which n contributions arrive at the named
// reduction of the Call with that ID; key hashes its phase and path.
func (s Schedule) Arrival(key uint64, id ID, name string, n int) []int {
	if s.Real {
		return race(n)
	}
	at := id.At
	h := rng.Mix(s.Seed, key, uint64(id.Step), uint64(id.Micro), rng.HashString(name),
		uint64(at.PP), uint64(at.DP), uint64(at.TP), uint64(at.CP), uint64(at.EP))
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- { // Fisher–Yates; the modulo's bias is below n/2^64
		h = rng.Mix(h)
		j := int(h % uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// race lets n goroutines run for a lock and returns the order in which they got it.
func race(n int) []int {
	order := make([]int, 0, n)
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
		})
	}
	close(start)
	wg.Wait()
	return order
}
