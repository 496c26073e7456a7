package run

import (
	"fmt"
	"sync"
)

// Interrupted is the error of a run that was told to end before its last step. Its traces are whole.
type Interrupted struct {
	Step  int    // the last, whole on every rank; 0: none
	Saved string // the checkpoint of that step; empty: none
}

// Error says after which step.
func (i *Interrupted) Error() string {
	if i.Step == 0 {
		return "interrupted before the first step"
	}
	return fmt.Sprintf("interrupted after step %d", i.Step)
}

// gate lets ranks begin steps until the run is told to end. All then end after the same one: the newest that any of them has begun by
// the time that the first is held back. No Call knows of it, so a run that is interrupted has the bits of one that is not.
type gate struct {
	interrupt <-chan struct{} // nil: nobody ever does

	mu    sync.Mutex
	begun int // steps of the rank that is ahead
	last  int // of them; −1: the run goes on
}

func newGate(interrupt <-chan struct{}) *gate { return &gate{interrupt: interrupt, last: -1} }

// begin tells whether a rank may begin its n-th step, counted from 1.
func (g *gate) begin(n int) bool {
	if g.interrupt == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.interrupt:
		if g.last < 0 {
			g.last = g.begun
		}
	default:
	}
	if g.last >= 0 && n > g.last {
		return false
	}
	g.begun = max(g.begun, n)
	return true
}
