package diff

import (
	"cmp"
	"fmt"

	"firstbit/trace"
)

// Window is what a localisation asks a run for.
type Window struct {
	Level trace.Level
	Step  int    // trace this step and stop after it; 0: all steps
	Dump  string // GLOB of Calls whose bytes to keep
}

// RunFunc runs side 0 or 1 of a pair from its beginning and returns its trace. The two sides run at once.
type RunFunc func(side int, w Window) (*trace.Trace, error)

// Localize finds where a pair of runs parts, coarse to fine: the metrics give the step, and at that
// step each level rules out what the level before could not tell apart. Only the
// traces are looked at. The bytes of the Call found are dumped and compared.
func Localize(run RunFunc, progress func(level trace.Level)) (*Report, error) {
	pair := func(w Window) (*Report, error) {
		if progress != nil {
			progress(w.Level)
		}
		return compareRuns(run, w)
	}
	report, err := pair(Window{Level: trace.Metrics})
	if err != nil || report.Identical {
		return report, err
	}
	levels := []LevelStep{report.levelStep(trace.Metrics)}
	step := report.First.Iteration
	steps, config := report.Steps, report.ConfigDifferences
	dump := ""
	for level := trace.Semantic; level <= trace.Kernel; level++ {
		next, err := pair(Window{Level: level, Step: step, Dump: dump})
		if err != nil {
			return nil, err
		}
		if next.Identical {
			return nil, fmt.Errorf("localize: step %d differs by its metrics but not at level %s: the runs do not replay (--schedule real?)", step, level)
		}
		report = next
		levels = append(levels, report.levelStep(level))
		if level == trace.Op {
			dump = report.First.Path()
		}
	}
	report.Levels, report.Steps, report.ConfigDifferences = levels, steps, config
	return report, nil
}

// Both does something for sides 0 and 1 of a pair at once and returns the first side's error, else the second's.
func Both(do func(side int) error) error {
	second := make(chan error)
	go func() { second <- do(1) }()
	return cmp.Or(do(0), <-second)
}

func compareRuns(run RunFunc, w Window) (*Report, error) {
	var traces [2]*trace.Trace
	err := Both(func(side int) (err error) {
		traces[side], err = run(side, w)
		return err
	})
	if err != nil {
		return nil, err
	}
	r, err := Compare(traces[0], traces[1])
	if err != nil {
		return nil, err
	}
	r.Confirm(traces[0].Dir, traces[1].Dir)
	return r, nil
}

func (r *Report) levelStep(l trace.Level) LevelStep {
	return LevelStep{Level: l.String(), Compared: r.Records, RuledOut: r.ruledOut, First: r.First}
}
