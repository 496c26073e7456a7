package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"firstbit/files"
)

// write adds a record to the file of its iteration. After an error it writes nothing more: what follows could not be read.
func (t *Tracer) write(r Record) {
	if t.err != nil {
		return
	}
	if r.Iteration != t.iteration {
		if t.err = t.open(r.Iteration); t.err != nil {
			return
		}
	}
	r.Seq = t.seq
	t.seq++
	t.err = t.failed(t.out.Write(&r))
}

// open ends the current file and starts the iteration's.
func (t *Tracer) open(iteration int) error {
	if iteration < t.iteration {
		return fmt.Errorf("trace %s: rank %d comes to step %d after step %d: a trace holds steps in their order", t.Dir, t.rank, iteration, t.iteration)
	}
	if err := t.end(); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(t.Dir, FileName(t.rank, iteration)))
	if err != nil {
		return t.failed(err)
	}
	t.file, t.iteration = f, iteration
	t.w = bufio.NewWriterSize(f, 1<<16)
	t.out = NewFile(t.w, t.rank, iteration, t.held.Last)
	return nil
}

// end writes the end record, by which truncation shows, and closes the file.
func (t *Tracer) end() error {
	if t.file == nil {
		return nil
	}
	digest, err := t.out.End()
	if err = cmp.Or(err, t.close()); err != nil {
		return t.failed(err)
	}
	t.held.Steps, t.held.Last = append(t.held.Steps, t.iteration), digest
	return nil
}

// close closes the file as it stands.
func (t *Tracer) close() error {
	err := t.w.Flush()
	err = cmp.Or(err, t.file.Close())
	t.file = nil
	return err
}

func (t *Tracer) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("trace %s: %w", t.Dir, files.Reason(err))
}

// Err is the first error of this rank's Tracer, which records nothing after it.
func (t *Tracer) Err() error { return t.err }

// Complete ends the trace of a run whose last step is given: the files of all ranks and then run.json, which from now on says that the trace
// is whole. It is called once, of any rank's Tracer, when no rank runs any more. After an error the trace is not whole, and says so.
func (t *Tracer) Complete(last int) error {
	tracers := t.byRank()
	for _, r := range tracers {
		if r.err == nil {
			r.err = r.end()
		}
	}
	var held []Held
	for _, r := range tracers {
		if r.err != nil {
			return r.err
		}
		if r.active {
			held = append(held, r.held)
		}
	}
	t.run.Close(last, held)
	return t.run.describe(t.Dir)
}

// Abandon closes the files of a run that failed. What its ranks were in the middle of stays without an end record, and the trace is not whole.
func (t *Tracer) Abandon() {
	for _, r := range t.byRank() {
		if r.file != nil {
			_ = r.close() // the run has failed already
		}
	}
}

func (b *book) byRank() []*Tracer {
	return slices.SortedFunc(slices.Values(b.tracers), func(a, b *Tracer) int { return a.rank - b.rank })
}

// Remove deletes what was written: a run that failed leaves no half trace.
func (t *Tracer) Remove() {
	entries, err := os.ReadDir(t.Dir)
	for _, e := range entries { // New made sure the directory held nothing else
		if err == nil {
			err = os.RemoveAll(filepath.Join(t.Dir, e.Name()))
		}
	}
	if t.made && err == nil {
		_ = os.Remove(t.Dir) // an error here leaves an empty directory
	}
}
