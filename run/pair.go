package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/diff"
	"firstbit/inject"
	"firstbit/trace"
	"firstbit/train"
)

// Pair is two runs that are localised against each other. The first pass saves their states, so that a window is traced from the
// checkpoint just before it.
type Pair struct {
	Specs [2]Spec
	Dir   string // of checkpoints and traces, which the caller removes

	steps [2][]train.Result // of the first pass
	ready sync.Once
	from  int // the step whose checkpoints windows continue; 0: they begin anew
	err   error
}

// checkpoints is how many a first pass saves of each run at most.
const checkpoints = 16

// Trace is a diff.RunFunc.
func (p *Pair) Trace(side int, w diff.Window) (*trace.Trace, error) {
	s := p.Specs[side]
	s.Save, s.Export, s.Digest, s.Load = Save{}, "", true, false
	s.Trace = trace.Options{Dir: filepath.Join(p.Dir, fmt.Sprintf("%s-%c", w.Level, 'a'+side)), Level: w.Level, Inner: w.Inner, Dump: w.Dump, Ranks: w.Ranks}
	if err := os.RemoveAll(s.Trace.Dir); err != nil { // a level that is traced again, of more ranks
		return nil, err
	}
	if w.Step == 0 {
		s.Save = Save{Dir: p.saved(side), Every: max(1, s.Config.Steps/checkpoints)}
		o, err := Run(s)
		if err != nil {
			return nil, err
		}
		if o.Missed != nil {
			return nil, o.Missed
		}
		p.steps[side] = o.Steps
		return trace.Open(s.Trace.Dir)
	}
	p.ready.Do(func() { p.err = p.rewind(w.Step) })
	if p.err != nil {
		return nil, p.err
	}
	last := min(w.Step+w.Next, s.Config.Steps)
	s.Trace.Steps = trace.Set{{Lo: w.Step, Hi: last}}
	if w.Step == p.begin()+1 { // with the restore of a run that continues
		s.Trace.Steps[0].Lo--
	}
	if _, err := Run(p.window(side, s, last)); err != nil {
		return nil, err
	}
	return trace.Open(s.Trace.Dir)
}

func (p *Pair) saved(side int) string { return filepath.Join(p.Dir, fmt.Sprintf("saved-%c", 'a'+side)) }

// window is a run to a step, from the checkpoint before it. What befell the restore with which the run began has had its effect.
func (p *Pair) window(side int, s Spec, step int) Spec {
	s.Until = step
	if p.from == 0 {
		return s
	}
	s.Resume, s.Strict = checkpoint.Path(p.saved(side), p.from), false
	var faults []string
	for _, text := range s.Faults {
		if f, err := inject.Parse(text); err != nil || f.Phase != device.Load {
			faults = append(faults, text)
		}
	}
	s.Faults = faults
	return s
}

// rewind finds the checkpoint to begin at: the last before the step. A fault that remembers, or acts on what is restored, may have a run continue
// otherwise than it went on: then, and where a run's own tuner or memory does, windows begin where the runs do.
func (p *Pair) rewind(step int) error {
	for n := step - 1; n > p.begin(); n-- {
		both := true
		for side := range p.Specs {
			_, err := os.Stat(checkpoint.Path(p.saved(side), n))
			both = both && err == nil
		}
		if both {
			p.from = n
			break
		}
	}
	if p.from == 0 {
		return nil
	}
	same := true
	err := diff.Both(func(side int) error {
		s := p.Specs[side]
		s.Save, s.Export, s.Digest = Save{}, "", true
		o, err := Run(p.window(side, s, step))
		var interrupted *Interrupted
		if err != nil && !errors.As(err, &interrupted) {
			return err
		}
		if !continues(o.Steps, p.steps[side]) {
			same = false
		}
		return nil
	})
	if !same {
		p.from = 0
	}
	return err
}

// begin is the step after which the runs begin.
func (p *Pair) begin() int {
	n := 0
	for side := range p.steps {
		if steps := p.steps[side]; len(steps) > 0 {
			n = max(n, steps[0].Step-1)
		}
	}
	return n
}

// continues tells whether the steps of a run that was continued are those that went on.
func continues(again, steps []train.Result) bool {
	at := map[int]train.Result{}
	for _, s := range steps {
		at[s.Step] = s
	}
	for _, s := range again {
		was := at[s.Step]
		if s.State != was.State || len(s.Metrics) != len(was.Metrics) {
			return false
		}
		for i := range s.Metrics {
			if s.Metrics[i].Bits != was.Metrics[i].Bits {
				return false
			}
		}
	}
	return len(again) > 0
}

// Same tells whether the runs have the same metrics and states after every step.
func (p *Pair) Same() (bool, error) {
	var steps [2][]train.Result
	err := diff.Both(func(side int) error {
		s := p.Specs[side]
		s.Save, s.Export, s.Digest = Save{}, "", true
		o, err := Run(s)
		if err == nil {
			steps[side], err = o.Steps, o.Missed
		}
		return err
	})
	return err == nil && len(steps[0]) == len(steps[1]) && continues(steps[0], steps[1]), err
}
