package inject

import (
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/tune"
)

// Run is what is known of a run before it begins.
type Run struct {
	tune.Grid
	Precision string
	Widest    lowp.Format // of its tensors
	Resumes   bool        // it continues from a checkpoint
	Loads     bool        // it begins with weights of a folder
	Traced    bool
}

// limited has something of its own to refuse; loads says that it acts on what is restored.
type limited interface {
	check(r Run, loads bool) error
}

// Check refuses what no such run has, before anything runs.
func (f *Fault) Check(r Run) error {
	loads := f.restores()
	if loads && !r.Resumes && !r.Loads {
		return f.bad("phase=load: a run that begins anew restores nothing: needs --resume DIR")
	}
	if err := f.Where.Check(r.Grid); err != nil {
		return f.bad("%v", err)
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
	if f.kind.begins || f.Phase == device.Init || f.restores() {
		first = begin
	}
	if err := f.Where.CheckSteps(first, last); err != nil {
		return f.bad("%v", err)
	}
	if x, ok := f.action.(*copied); ok && !f.restores() && (x.fromStep < first || x.fromStep >= last) {
		return f.bad("from-step: must be from %d to %d, the steps before the last of the run", first, last-1)
	}
	return nil
}
