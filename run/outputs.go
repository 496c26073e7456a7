package run

import (
	"fmt"

	"firstbit/checkpoint"
	"firstbit/data"
	"firstbit/files"
	"firstbit/model"
	"firstbit/parallel"
	"firstbit/trace"
)

// outputs are what a run writes. Each is claimed and found to be writable before the first step; nil: the run has none.
type outputs struct {
	trace  *trace.Tracer // of the first rank
	saver  *checkpoint.Saver
	export *files.Folder
}

// outputs claims them all, or none.
func (j *job) outputs(world *parallel.World, corpus *data.Corpus) (*outputs, error) {
	o := &outputs{}
	if err := o.claim(j, world, corpus); err != nil {
		o.abandon(0)
		return nil, err
	}
	return o, nil
}

// claim begins with the trace, whose folder must be empty and may then hold the others.
func (o *outputs) claim(j *job, world *parallel.World, corpus *data.Corpus) (err error) {
	if o.trace, err = j.trace(world); err != nil {
		return err
	}
	if o.saver, err = j.state(corpus); err != nil {
		return err
	}
	if j.Export != "" {
		if o.export, err = files.ClaimEmpty(j.Export); err != nil {
			return fmt.Errorf("export %s: %w", j.Export, err)
		}
	}
	return nil
}

// trace begins the trace of a run; nil: none.
func (s *Spec) trace(world *parallel.World) (*trace.Tracer, error) {
	if s.Trace.Level == trace.Off {
		return nil, nil
	}
	return trace.New(s.Trace, 0, s.describe(world))
}

// tracer is that of a rank; nil: none.
func (o *outputs) tracer(rank int) *trace.Tracer {
	if o.trace == nil || rank == 0 {
		return o.trace
	}
	return o.trace.Join(rank)
}

// complete ends what a run wrote that came to its end, or was told to end after a step.
func (o *outputs) complete(last int, faults []trace.Fault) error {
	if o.saver != nil {
		o.saver.Close()
	}
	if o.trace != nil {
		return o.trace.Complete(last, faults)
	}
	return nil
}

// abandon ends what a run wrote that failed after so many whole steps: what is whole stays.
func (o *outputs) abandon(steps int) {
	o.export.Release()
	if o.saver != nil {
		o.saver.Close()
	}
	if o.trace != nil {
		o.trace.Abandon(steps)
	}
}

// exports writes the weights, if the run is to, all or nothing.
func (o *outputs) exports(m *model.Model) error {
	if o.export == nil {
		return nil
	}
	defer o.export.Release()
	err := o.export.Fill(func(dir string) error { return checkpoint.SaveHF(dir, m) })
	if err != nil {
		return fmt.Errorf("export %s: %w", o.export.Dir, err)
	}
	return nil
}
