package experiments

import (
	"fmt"
	"os"
	"path/filepath"

	"firstbit/diff"
	"firstbit/run"
	"firstbit/trace"
)

// Runs is the pair that a cause makes differ, as a localiser runs it.
type Runs struct {
	Pair  [2]run.Spec
	cause *Cause
	dir   string
	out   [2]*run.Outcome // of the whole runs
}

// Runs prepares the broken pair, from its beginnings: checkpoints and traces go into dir, which the caller removes.
func (c *Cause) Runs(dir string) (*Runs, error) {
	pair, err := c.Broken(dir)
	return &Runs{Pair: pair, cause: c, dir: dir}, err
}

// Trace is a diff.RunFunc.
func (r *Runs) Trace(side int, w diff.Window) (*trace.Trace, error) {
	s := r.Pair[side]
	s.Trace = r.options(side, w)
	if err := os.RemoveAll(s.Trace.Dir); err != nil { // a level that is traced again
		return nil, err
	}
	if w.Step > 0 {
		s.Until = w.Step
	}
	s.Routes = w.Step == 0
	o, err := run.Run(s)
	if err != nil {
		return nil, err
	}
	if w.Step == 0 {
		r.out[side] = o
	}
	return trace.Open(s.Trace.Dir)
}

// options traces one window into a directory of its own.
func (r *Runs) options(side int, w diff.Window) trace.Options {
	o := trace.Options{Dir: filepath.Join(r.dir, fmt.Sprintf("%s-%c", w.Level, 'a'+side)), Level: w.Level, Dump: w.Dump, Parts: w.Parts}
	switch {
	case w.Step > 0:
		o.Steps = r.cause.Window(w.Step)
	case r.cause.silent: // metrics alone would find nothing
		o.Level, o.Steps = trace.Semantic, r.cause.Window(r.cause.stop)
	}
	return o
}
