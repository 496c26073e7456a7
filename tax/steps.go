package tax

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"firstbit/run"
	"firstbit/train"
)

// steps is a run that takes a step when it is told, so that runs can take theirs in turn.
type steps struct {
	world int
	turn  chan struct{} // a rank may take its next step
	ended chan struct{} // a rank has taken it
	over  chan error    // the run has ended
	stop  sync.Once
}

// errEnough ends a run that has taken all the steps that it is asked for.
var errEnough = errors.New("tax: enough steps")

// errOver is that of a run which is at its end before it has taken them.
var errOver = errors.New("tax: the run has ended")

// begin starts a run and returns when it has taken its first step, in which storage is made.
func begin(s run.Spec) (*steps, error) {
	r := &steps{world: s.Layout.World(), turn: make(chan struct{}), over: make(chan error, 1)}
	r.ended = make(chan struct{}, r.world)
	s.EachRank = func(int, *train.Trainer, train.Result) error {
		r.ended <- struct{}{}
		if _, on := <-r.turn; !on {
			return errEnough
		}
		return nil
	}
	go func() {
		_, err := run.Run(s)
		r.over <- err
	}()
	return r, r.wait()
}

// step has every rank take a step, and says how long it took.
func (r *steps) step() (time.Duration, error) {
	start := time.Now()
	for range r.world {
		select {
		case r.turn <- struct{}{}:
		case err := <-r.over:
			r.over <- err
			return 0, cmp.Or(err, errOver)
		}
	}
	err := r.wait()
	return time.Since(start), err
}

// wait waits until all ranks have taken their step.
func (r *steps) wait() error {
	for range r.world {
		select {
		case <-r.ended:
		case err := <-r.over:
			r.over <- err
			return cmp.Or(err, errOver)
		}
	}
	return nil
}

// end ends the run.
func (r *steps) end() {
	r.stop.Do(func() { close(r.turn) })
	r.over <- <-r.over
}
