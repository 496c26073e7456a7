package experiments

import (
	"os"
	"path/filepath"

	"firstbit/checkpoint"
	"firstbit/parallel"
	"firstbit/run"
)

// Broken are the two runs of the pair that the cause makes differ. What they continue from is saved below dir.
func (c *Cause) Broken(dir string) (pair [2]run.Spec, err error) {
	from, err := c.save(dir, c.Layouts[0])
	if err != nil {
		return pair, err
	}
	for side := range pair {
		pair[side] = c.spec(c.broken, side)
		pair[side].Resume = from
	}
	return pair, nil
}

// save makes the checkpoint that the runs over a layout continue from, unless it is there; empty: they do not.
func (c *Cause) save(dir, layout string) (string, error) {
	if c.stop == 0 {
		return "", nil
	}
	s := c.spec(c.healthy, 0)
	s.Until, s.Save.Dir = c.stop+c.around, filepath.Join(dir, "saved-"+layout)
	if c.around > 0 {
		s.Save.Every = 1
	}
	from := checkpoint.Path(s.Save.Dir, c.stop)
	var err error
	if s.Layout, err = parallel.ParseLayout(layout); err != nil {
		return "", err
	}
	if _, err := os.Stat(s.Save.Dir); err == nil {
		return from, nil
	}
	_, err = run.Run(s)
	return from, err
}
