package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"firstbit/checkpoint"
	"firstbit/data"
	"firstbit/trace"
	"firstbit/train"
	"firstbit/tune"
)

// Save says where and when a run's state is saved. The last step's always is.
type Save struct {
	Dir   string // empty: nowhere
	Every int    // steps; 0: after the last only
	Keep  int    // as many of the newest stay; 0: all
}

func (s Save) check() error {
	for _, f := range []struct {
		name string
		n    int
	}{{"save-every", s.Every}, {"keep", s.Keep}} {
		if f.n < 0 {
			return fmt.Errorf("%s: %d: must be 0 or more", f.name, f.n)
		}
	}
	return nil
}

// interrupted says how a run ended before its last step.
func (s *Spec) interrupted(step int) error {
	i := &Interrupted{Step: step}
	if s.Save.Dir != "" {
		i.Saved = checkpoint.Path(s.Save.Dir, step)
	}
	return i
}

func (s Save) at(step, last int) bool { return step == last || s.Every > 0 && step%s.Every == 0 }

// state reads the checkpoint that the run continues and prepares to save; nothing is written yet. nil: nothing is saved.
func (j *job) state(corpus *data.Corpus) (*checkpoint.Saver, error) {
	if j.Resume == "" && j.Save.Dir == "" {
		return nil, nil
	}
	m, err := j.Config.Manifest(corpus)
	if err != nil {
		return nil, err
	}
	m.Layout, m.Recipe, m.Plans, m.Library = j.Layout.String(), j.Recipe, append([]string{}, j.Plans...), j.Library
	m.Provenance = checkpoint.Provenance{Version: trace.Version(), Schedule: j.Schedule.String(), Faults: append([]string{}, j.Faults...)}
	after := 0
	if j.Resume != "" {
		if err := j.open(&m); err != nil {
			return nil, err
		}
		after = j.resumed.Step
		m.Provenance.Previous, m.Provenance.Faults = j.resumed.Digest, union(j.resumed.Provenance.Faults, j.Faults)
	}
	if j.Save.Dir == "" {
		return nil, nil
	}
	return checkpoint.NewSaver(j.Save.Dir, j.Save.Keep, j.Layout.World(), after, m)
}

// union is a, and what b has besides.
func union(a, b []string) []string {
	all := append([]string{}, a...)
	for _, x := range b {
		if !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

func (j *job) open(run *checkpoint.Manifest) error {
	if j.resumed != nil { // a replay: the folder may hold other checkpoints by now
		return nil
	}
	c, err := checkpoint.Open(j.Resume)
	if err != nil {
		return err
	}
	bad := func(err error) error { return fmt.Errorf("checkpoint %s: %w", c.Dir, err) }
	if c.Layout != run.Layout || c.Moved(run) && (j.sameEverywhere() || j.Reshard) {
		err = j.move(c, run)
	} else if err = c.Match(run); err == nil && len(c.Ranks) != j.Layout.World() {
		err = fmt.Errorf("files: of %d ranks: must be of %d", len(c.Ranks), j.Layout.World())
	}
	if err != nil {
		return bad(err)
	}
	if c.Step >= j.Config.Steps {
		return bad(fmt.Errorf("steps: %d: must be above %d, after which it was saved", j.Config.Steps, c.Step))
	}
	if j.Strict {
		if err := j.checkSteps(c.Step); err != nil {
			return err
		}
	}
	j.resumed = c
	return nil
}

// move puts the state of a run of another layout together. By the recipe canonical the bits do not depend on the layout.
func (j *job) move(c *checkpoint.Checkpoint, run *checkpoint.Manifest) (err error) {
	if err := c.MatchMoved(run); err != nil {
		return err
	}
	if !j.sameEverywhere() && !j.Reshard {
		return fmt.Errorf("layout: %s was saved, this run has %s: recipe %s has other bits there: --reshard continues all the same", c.Layout, run.Layout, j.Recipe)
	}
	if j.whole, err = c.Assemble(); err != nil {
		return fmt.Errorf("layout: %s was saved, this run has %s: %w", c.Layout, run.Layout, err)
	}
	return nil
}

func (s *Spec) sameEverywhere() bool { return s.Recipe == tune.Canonical && len(s.Plans) == 0 }

// resharded says what is another way than on the layout that was saved.
func (j *job) resharded(ranks []*session) string {
	if j.whole == nil || j.sameEverywhere() {
		return ""
	}
	text := fmt.Sprintf("resharded from %s to %s: the orders of addition over ranks and microbatches are others", j.resumed.Layout, j.Layout)
	var anew []string
	for _, r := range ranks {
		anew = append(anew, r.anew...)
	}
	slices.Sort(anew)
	if anew = slices.Compact(anew); len(anew) > 0 {
		text += "; random streams that nobody had drawn from: " + strings.Join(anew, ", ")
	}
	return text
}

// notes are about a run that continues.
func (j *job) notes(o *Outcome) (notes []string) {
	if j.resumed == nil {
		return nil
	}
	if by, is := j.resumed.Provenance.Version, trace.Version(); by != is {
		notes = append(notes, fmt.Sprintf("checkpoint %s was saved by firstbit %s, this is %s", j.resumed.Dir, by, is))
	}
	if j.Trace.Level > trace.Off && len(o.Steps) > 0 && o.Steps[0].Step < j.resumed.Step {
		notes = append(notes, fmt.Sprintf("the run went back to step %d: its trace goes on after step %d, that of the checkpoint", o.Steps[0].Step, j.resumed.Step))
	}
	return notes
}

// restore takes over a rank's part of a checkpoint, with the faults that are around.
func (r *session) restore(c *checkpoint.Checkpoint, whole *checkpoint.Whole, rank int) (err error) {
	file := (*checkpoint.File)(nil)
	if whole != nil {
		file, r.anew, err = r.trainer.Reshard(c.Step, whole)
	} else {
		file = c.Ranks[rank]
	}
	if err == nil {
		err = r.trainer.CheckSaved(c.Manifest, file)
	}
	if err != nil {
		return c.Bad(rank, err)
	}
	if whole == nil {
		if file, err = r.injector.File(c); err != nil {
			return err
		}
	}
	err = r.injector.Around(c.Step, func() error { return r.trainer.Restore(c.Step, file) })
	if err != nil {
		return r.restored(c, rank, err)
	}
	return nil
}

// restored puts what is wrong with a state down to the fault that changed it on its way, else to the checkpoint.
func (r *session) restored(c *checkpoint.Checkpoint, rank int, err error) error {
	var of *train.StateError
	if errors.As(err, &of) {
		for _, f := range r.injector.Faults {
			if _, changed := f.Counts(); changed > 0 && f.Names(of.State) {
				return fmt.Errorf("--inject %q: %w", f.Text, err)
			}
		}
	}
	return c.Bad(rank, err)
}
