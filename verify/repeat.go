package verify

import (
	"errors"
	"fmt"
	"strings"

	"firstbit/device"
	"firstbit/run"
	"firstbit/train"
)

// RepeatLayouts are the layouts that Repeat is run over unless others are chosen: one rank and every axis.
var RepeatLayouts = []string{"dp=1", "dp=4", "tp=2,dp=2,ep=2", "pp=2", "cp=2"}

// parted ends a run that is no repetition.
type parted struct{ why string }

func (p parted) Error() string { return p.why }

// Repeat runs a Spec under schedule 0 and then under as many others as make so many schedules, two at least, and compares metrics and the state
// of every rank after every step with those of the first run; it ends with the first that differs. What it keeps of the first is a
// fingerprint for every rank and step. step is called with every step of all.
func Repeat(s run.Spec, schedules int, step func()) (Cell, error) {
	cell := Cell{Name: strings.Join([]string{short(s.Layout), s.Config.Model.Pattern, s.Config.Precision, s.Recipe}, " "), OK: true}
	s.Digest, s.Schedule = true, device.Schedule{}
	s.Each = func(train.Result) error {
		step()
		return nil
	}
	first := make([][]train.Result, s.Layout.World())
	s.EachRank = func(rank int, _ *train.Trainer, r train.Result) error {
		if rank > 0 {
			r.Metrics = nil // they are the first's
		}
		first[rank] = append(first[rank], r)
		return nil
	}
	o, err := run.Run(s)
	if err != nil {
		return cell, err
	}
	cell.Hash = o.Steps[len(o.Steps)-1].State

	s.EachRank = func(rank int, _ *train.Trainer, r train.Result) error {
		if rank > 0 {
			r.Metrics = nil
		}
		if why := differs(first[rank][r.Step-1], r); why != "" {
			return parted{fmt.Sprintf("step %d under schedule %d, rank %d: %s", r.Step, s.Schedule.Seed, rank, why)}
		}
		return nil
	}
	for s.Schedule.Seed = 1; s.Schedule.Seed < uint64(max(schedules, 2)); s.Schedule.Seed++ {
		_, err = run.Run(s)
		if p := (parted{}); errors.As(err, &p) {
			cell.fail(p.why)
			return cell, nil
		}
		if err != nil {
			return cell, err
		}
	}
	return cell, nil
}
