package experiments

import (
	"fmt"

	"firstbit/checkpoint"
	"firstbit/data"
	"firstbit/device"
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

func (s Save) at(step, last int) bool { return step == last || s.Every > 0 && step%s.Every == 0 }

// state reads the checkpoint that the run continues and prepares to save; nothing is written yet. nil: nothing is saved.
func (s *Spec) state(corpus *data.Corpus) (*checkpoint.Saver, error) {
	if s.Resume == "" && s.Save.Dir == "" {
		return nil, nil
	}
	m, err := s.Config.Manifest(corpus)
	if err != nil {
		return nil, err
	}
	m.Layout, m.Recipe, m.Plans, m.Library = s.Layout.String(), s.Recipe, append([]string{}, s.Plans...), device.DefaultLibrary
	m.Provenance = checkpoint.Provenance{Schedule: s.Schedule.String(), Faults: append([]string{}, s.Faults...)}
	after := 0
	if s.Resume != "" {
		if err := s.open(&m); err != nil {
			return nil, err
		}
		after = s.resumed.Step
	}
	if s.Save.Dir == "" {
		return nil, nil
	}
	return checkpoint.NewSaver(s.Save.Dir, s.Save.Keep, s.Layout.World(), after, m)
}

func (s *Spec) open(run *checkpoint.Manifest) error {
	if s.resumed != nil { // a replay: the folder may hold other checkpoints by now
		return nil
	}
	c, err := checkpoint.Open(s.Resume)
	if err != nil {
		return err
	}
	bad := func(err error) error { return fmt.Errorf("checkpoint %s: %w", c.Dir, err) }
	if err := c.Match(run); err != nil {
		return bad(err)
	}
	if len(c.Ranks) != s.Layout.World() {
		return bad(fmt.Errorf("files: of %d ranks: must be of %d", len(c.Ranks), s.Layout.World()))
	}
	if c.Step >= s.Config.Steps {
		return bad(fmt.Errorf("steps: %d: must be above %d, after which it was saved", s.Config.Steps, c.Step))
	}
	s.resumed = c
	return nil
}
