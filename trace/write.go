package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
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
	r.Seq = t.seq
	t.seq++
	if t.Into != nil {
		t.iteration, t.ended, t.kept = r.Iteration, false, append(t.kept, r)
		return
	}
	if t.file == nil || r.Iteration != t.iteration {
		if t.err = t.open(r.Iteration); t.err != nil {
			return
		}
	}
	t.err = t.failed(t.out.Write(&r))
}

// open ends the current file and starts the iteration's.
func (t *Tracer) open(iteration int) error {
	if err := t.end(); err != nil {
		return err
	}
	name := FileName(t.rank, iteration)
	f, err := os.Create(filepath.Join(t.Dir, name))
	if err != nil {
		return t.failed(err)
	}
	t.file, t.iteration, t.ended, t.wrote = f, iteration, false, append(t.wrote, name)
	t.w = bufio.NewWriterSize(f, 1<<16)
	t.out = NewFile(t.w, t.rank, iteration, t.held.Last)
	return nil
}

// end writes the end record, by which truncation shows, and closes the file.
func (t *Tracer) end() error {
	t.ended = true
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

// EndStep ends the file of a step of this rank, and returns the first error there has been in writing. The Tracer records nothing after one.
func (t *Tracer) EndStep() error {
	if t.err == nil {
		t.err = t.end()
	}
	return t.err
}

// Complete ends the trace of a run whose last step is given: the files of all ranks and then run.json, which from now on says that the trace
// is whole, and what the faults came to. It is called once, of any rank's Tracer, when no rank runs any more. After an error the trace is to
// be abandoned.
func (t *Tracer) Complete(last int, faults []Fault) error {
	var held []Held
	for _, r := range t.byRank() {
		if err := r.EndStep(); err != nil {
			return err
		}
		if r.active {
			held = append(held, r.held)
		}
	}
	t.run.Faults = append([]Fault{}, faults...)
	if t.Into != nil {
		t.run.Last = &last
		return t.into()
	}
	t.run.Close(last, held)
	if err := t.run.describe(t.Dir); err != nil {
		return err
	}
	t.folder.Release()
	return nil
}

// into leaves the records of all ranks, and the description as a reader has it.
func (t *Tracer) into() error {
	text, err := t.run.Encode()
	if err != nil {
		return err
	}
	x := Trace{}
	if x.Run, err = DecodeRun(text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &x.Raw); err != nil {
		return err
	}
	for _, r := range t.byRank() {
		if len(r.kept) > 0 {
			x.Ranks = append(x.Ranks, Rank{r.rank, r.kept})
		}
	}
	*t.Into = x
	return nil
}

// Abandon ends the trace of a run that failed after so many whole steps, which stay. What ranks were in the middle of has no end record,
// and the trace says that it is not whole. Where no step is, all that was written goes.
func (t *Tracer) Abandon(steps int) {
	ended := false
	for _, r := range t.byRank() {
		if r.file != nil {
			_ = r.close() // the run has failed already
		}
		ended = ended || len(r.held.Steps) > 0
	}
	if t.Into != nil {
		return
	}
	if steps == 0 || !ended {
		t.remove()
	}
	t.folder.Release()
}

// remove removes what was written, by its names.
func (t *Tracer) remove() {
	names := []string{"dump", "run.json", "host.json"}
	for _, r := range t.byRank() {
		names = append(names, r.wrote...)
	}
	for _, name := range slices.Backward(names) { // what lies in a folder comes after it
		_ = os.Remove(filepath.Join(t.Dir, name)) // a folder in which others have put something stays
	}
}

func (b *book) byRank() []*Tracer {
	return slices.SortedFunc(slices.Values(b.tracers), func(a, b *Tracer) int { return a.rank - b.rank })
}
