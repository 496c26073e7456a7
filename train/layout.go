package train

import (
	"fmt"
	"strings"

	"firstbit/parallel"
)

// CheckLayout says why a run cannot be laid out so, and which layouts nearest to it can; nil: it can.
func (c Config) CheckLayout(l parallel.Layout) error {
	if err := l.Check(); err != nil { // which says what fits
		return err
	}
	axis, err := c.layoutError(l)
	if err == nil {
		return nil
	}
	var near []string
	for _, n := range c.nearest(l, axis) {
		near = append(near, fmt.Sprintf("%q", n))
	}
	text := "no other " + axis + " fits"
	if len(near) > 0 {
		text = "the nearest that fit: " + strings.Join(near, " and ")
	}
	return fmt.Errorf("layout %q: %w; %s", l, err, text)
}

func (c Config) layoutError(l parallel.Layout) (axis string, err error) {
	l = l.Full()
	if err := l.Check(); err != nil {
		return "", err
	}
	if axis, err := c.Model.CheckLayout(l); err != nil {
		return axis, err
	}
	switch rows := c.Batch * c.Seq / l.CP; {
	case c.Seq%l.CP != 0:
		return "cp", fmt.Errorf("cp=%d must divide seq (%d)", l.CP, c.Seq)
	case rows%l.TP != 0:
		return "tp", fmt.Errorf("tp=%d must divide the tokens of a microbatch, batch·seq/cp (%d)", l.TP, rows)
	}
	if l.CP > 1 && strings.Contains(c.Model.Pattern, "M") {
		if err := c.Model.SSM.CheckContext(c.Seq / l.CP); err != nil {
			return "cp", err
		}
	}
	if err := l.CheckMicros(c.Micro); err != nil {
		return "vpp", err
	}
	return "", nil
}

// nearest are the layouts with the next smaller and the next larger extent of an axis that can be.
func (c Config) nearest(l parallel.Layout, axis string) (near []parallel.Layout) {
	try := func(n int) bool {
		m := l.With(axis, n)
		if _, err := c.layoutError(m); err != nil {
			return false
		}
		near = append(near, m)
		return true
	}
	at := l.Extent(axis)
	for n := at - 1; n > 0 && !try(n); n-- {
	}
	for n := at + 1; n <= min(4*at, parallel.MaxRanks) && !try(n); n++ {
	}
	return near
}
