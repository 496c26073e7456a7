package train

import (
	"fmt"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/state"
)

// counters say how far a run has come. A restore may bring wrong ones, and the run goes on as a program would; one that no run
// can have is refused, since what it counts is an index and a loop's bound to others.
type counters struct {
	step     int
	updates  int   // of the weights
	consumed int64 // samples of all ranks, before the step
}

// maxSteps bounds the steps of a run.
const maxSteps = 1 << 30

// maxConsumed bounds the samples consumed: above it a scalar is not exact.
const maxConsumed = 1 << 53

// StateError is about a state of a restore.
type StateError struct {
	State string
	error
}

func wrong(state, format string, a ...any) error {
	return &StateError{state, fmt.Errorf("tensor %q: "+format, append([]any{state}, a...)...)}
}

// adopt takes over the counter in a state that was restored, if it is one.
func (t *Trainer) adopt(s device.Held) (err error) {
	within := func(most int64) int64 {
		n := s.Number()
		if n < 0 || n > most {
			err = wrong(s.Name, "is %d: must be from 0 to %d", n, most)
		}
		return n
	}
	switch {
	case s.Name == positionState:
		t.consumed = within(maxConsumed)
	case s.Name == stepState:
		t.step = int(within(int64(t.Steps - 1)))
	case s.Name == optimStepState:
		t.updates = int(within(maxSteps))
	case s.Role == state.Position:
		within(maxSteps)
	case s.Role == state.RouterTokens:
		for e, n := range s.I32() {
			if n < 0 || int(n) > t.Tokens() {
				return wrong(s.Name, "has %d for expert %d: must be from 0 to %d, the tokens of a step", n, e, t.Tokens())
			}
		}
	}
	return err
}

// CheckSaved reports a counter of a rank's file that cannot have been what the run counted when the checkpoint was saved. After faults of a
// restore any but the step can.
func (t *Trainer) CheckSaved(m *checkpoint.Manifest, f *checkpoint.File) error {
	step := int64(m.Step)
	want := []struct {
		state       string
		least, most int64
	}{{stepState, step, step}}
	if len(m.Provenance.Faults) == 0 {
		want = append(want, want[0], want[0], want[0])
		want[1].state, want[2].state, want[3].state = optimStepState, ratePositionState, positionState
		if t.Precision == scaledPrecision { // whose steps may have been skipped
			want[1].least, want[2].least = 0, 0
		}
		want[3].least = t.consumedBy(step)
		want[3].most = want[3].least
	}
	for _, w := range want {
		x, ok := f.Tensor(w.state)
		if n := device.Number(0); ok && x.Fits(n) == nil { // else Restore says so
			if x.CopyTo(n); n.Number() < w.least || n.Number() > w.most {
				must := fmt.Sprint(w.most)
				if w.least < w.most {
					must = fmt.Sprintf("from %d to %d", w.least, w.most)
				}
				return wrong(w.state, "is %d: must be %s after step %d", n.Number(), must, m.Step)
			}
		}
	}
	return nil
}
