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

// Repeat runs a Spec twice, under schedules 0 and 1, and compares metrics and the state of every rank after every step of the second run;
// it ends with the first that differs. What it keeps of the first is a fingerprint for every rank and step. step is called with
// every step of both.
func Repeat(s run.Spec, step func()) (Cell, error) {
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

	s.Schedule.Seed = 1
	s.EachRank = func(rank int, _ *train.Trainer, r train.Result) error {
		if rank > 0 {
			r.Metrics = nil
		}
		if why := differs(first[rank][r.Step-1], r); why != "" {
			return parted{fmt.Sprintf("step %d under another schedule, rank %d: %s", r.Step, rank, why)}
		}
		return nil
	}
	_, err = run.Run(s)
	if p := (parted{}); errors.As(err, &p) {
		cell.fail(p.why)
		return cell, nil
	}
	return cell, err
}
