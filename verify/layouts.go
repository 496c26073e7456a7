// Package verify proves guarantees by running them.
package verify

import (
	"github.com/zeebo/xxh3"

	"firstbit/device"
	"firstbit/parallel"
)

// Layouts runs the matrix over some layouts by a recipe. A cell is ok if weights, moments, gradients and losses of all steps are those
// of one rank, under two schedules. one is the hash of the hashes of one rank.
func Layouts(recipe string, layouts []string, each func(Cell) error) (cells []Cell, one string, err error) {
	return layoutsOf(variants(), recipe, layouts, each)
}

func layoutsOf(of []variant, recipe string, layouts []string, each func(Cell) error) (cells []Cell, one string, err error) {
	all := xxh3.New()
	cells, err = matrix(of, layouts, each, func(s variant, l parallel.Layout, want Values) (Cell, Values, error) {
		cell, got, err := s.sameAs(want, l, recipe)
		if want == nil {
			_, _ = all.WriteString(cell.Hash) // a hash does not fail
		}
		return cell, got, err
	})
	return cells, hexOf(all), err
}

// sameAs runs a layout under two schedules and compares it with itself and with one rank, unless it is that.
func (s variant) sameAs(want Values, l parallel.Layout, recipe string) (Cell, Values, error) {
	cell, got, err := s.twice(l, recipe)
	if err == nil && cell.OK && want != nil {
		if d := want.Differ(got); d != "" {
			cell.fail("differs from one rank: " + d)
		}
	}
	return cell, got, err
}

// twice runs a layout under two schedules.
func (s variant) twice(l parallel.Layout, recipe string) (Cell, Values, error) {
	cell := Cell{Name: s.name(l), OK: true}
	spec := s.spec(l, recipe)
	spec.Schedule = device.Schedule{Seed: 1}
	got, err := Run(spec)
	if err != nil {
		return cell, nil, err
	}
	spec.Schedule.Seed = 2
	again, err := Run(spec)
	if err != nil {
		return cell, nil, err
	}
	cell.Hash = got.Hash()
	if d := got.Differ(again); d != "" {
		cell.fail("differs under another schedule: " + d)
	}
	return cell, got, nil
}
