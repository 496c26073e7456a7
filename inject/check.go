package inject

import (
	"firstbit/device"
	"firstbit/lowp"
)

// Run is what is known of a run before it begins.
type Run struct {
	Layout    string
	Ranks     int
	Micro     int // microbatches of a rank in a step
	Precision string
	Widest    lowp.Format // of its tensors
	Resumes   bool        // it continues from a checkpoint
	Loads     bool        // it begins with weights of a folder
}

// limited has something of its own to refuse; loads says that it acts on what is restored.
type limited interface {
	check(r Run, loads bool) error
}

// Check refuses what no such run has, before anything runs.
func (f *Fault) Check(r Run) error {
	loads := f.Phase == device.Load
	switch {
	case f.Restores() && !r.Resumes:
		return f.bad("%s acts where a run continues: needs --resume DIR", f.Kind())
	case loads && !r.Resumes && !r.Loads:
		return f.bad("phase=load: a run that begins anew restores nothing: needs --resume DIR")
	case f.Rank >= r.Ranks:
		return f.bad("rank: %d: must be from 0 to %d, the ranks of layout %q", f.Rank, r.Ranks-1, r.Layout)
	case f.Micro >= r.Micro:
		return f.bad("micro: %d: must be from 0 to %d, the microbatches that a rank has in a step", f.Micro, r.Micro-1)
	}
	if x, ok := f.action.(limited); ok {
		if err := x.check(r, loads); err != nil {
			return f.bad("%v", err)
		}
	}
	return nil
}

// CheckSteps refuses steps that do not come after the one with which the run begins. What precedes the first belongs to that one.
func (f *Fault) CheckSteps(begin, last int) error {
	first := begin + 1
	if f.kind.begins || f.Phase == device.Init || f.Phase == device.Load {
		first = begin
	}
	if !f.Steps.Within(first, last) {
		return f.bad("step: must be from %d to %d, the steps of the run", first, last)
	}
	return nil
}
