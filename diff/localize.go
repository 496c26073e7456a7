package diff

import (
	"cmp"
	"fmt"
	"slices"

	"firstbit/trace"
)

// Window is what a localisation asks a run for.
type Window struct {
	Level trace.Level
	Step  int    // trace this step and stop after it; 0: all steps
	Inner string // GLOB of Calls to look inside, at level kernel; empty: all
	Dump  string // GLOB of Calls whose bytes to keep
	Ranks trace.Set
	Next  int  // so many steps more: what changed in memory after the step's last Call is first read there
	Parts bool // beside the digests those that add up over the pieces of all ranks
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
	inner, dump := "", ""
	var ranks trace.Set
	more := 0
	for level := trace.Semantic; level <= trace.Kernel; level++ {
		w := Window{Level: level, Step: step, Inner: inner, Dump: dump, Ranks: ranks, Next: more}
		next, err := pair(w)
		if err == nil && (ranks != nil || inner != "") && next.needsMore() {
			w.Ranks, w.Inner = nil, ""
			next, err = pair(w)
		}
		if err == nil && level == trace.Op && next.unread() {
			more, w.Next = 1, 1
			next, err = pair(w)
		}
		if err == nil && level == trace.Kernel && next.undumped(dump) {
			w.Dump = next.First.Path()
			next, err = pair(w)
		}
		if err != nil {
			return nil, err
		}
		if next.Identical {
			return nil, fmt.Errorf("localize: step %d differs by its metrics but not at level %s: the runs do not replay (--schedule real?)", step, level)
		}
		report = next.widened(report)
		levels = append(levels, report.levelStep(level))
		ranks = report.suspects()
		if level == trace.Op {
			inner, dump = trace.Path(report.First.Scope, "*"), report.First.Path()
		}
	}
	report.Levels, report.Steps, report.ConfigDifferences = levels, steps, config
	return report, nil
}

// LookAt compares a pair of runs whose metrics and states show nothing: of one step, at op and kernel level. The bytes of the Call found are dumped and compared.
func LookAt(run RunFunc, step int, progress func(level trace.Level)) (*Report, error) {
	var levels []LevelStep
	var report *Report
	for _, w := range []Window{{Level: trace.Metrics}, {Level: trace.Op, Step: step}, {Level: trace.Kernel, Step: step}} {
		if progress != nil {
			progress(w.Level)
		}
		if report != nil && w.Level == trace.Kernel && !report.Identical && report.First.Verdict == "origin" {
			w.Dump = report.First.Path()
		}
		var err error
		if report, err = compareRuns(run, w); err != nil {
			return nil, err
		}
		levels = append(levels, report.levelStep(w.Level))
	}
	report.Levels = levels
	return report, nil
}

// Inside looks at the kernels of the Call that was found, and compares its bytes.
func Inside(run RunFunc, found *Finding) (*Report, error) {
	w := Window{Level: trace.Kernel, Step: found.Iteration, Inner: trace.Path(found.Scope, "*"), Dump: found.Path()}
	r, err := compareRuns(run, w)
	if err == nil && r.undumped(w.Dump) {
		w.Dump = r.First.Path()
		r, err = compareRuns(run, w)
	}
	return r, err
}

// LocalizeLayouts finds where a pair of runs of one training in two layouts parts: the metrics give the step, and at that step the pieces of all
// ranks, added up, the first Call. With within it is the first further apart than that: the bytes of every Call are dumped for it.
func LocalizeLayouts(run RunFunc, within *Within, progress func(level trace.Level)) (*Report, error) {
	at := func(w Window, apart *Within) (*Report, error) {
		if progress != nil {
			progress(w.Level)
		}
		a, b, err := tracePair(run, w)
		if err != nil {
			return nil, err
		}
		return Layouts(a, b, apart)
	}
	report, err := at(Window{Level: trace.Metrics}, nil)
	if err != nil || report.Identical {
		return report, err
	}
	levels := []LevelStep{report.levelStep(trace.Metrics)}
	w := Window{Level: trace.Op, Step: report.First.Iteration, Parts: true}
	if within != nil {
		w.Dump = "*"
	}
	for ; ; w.Step-- { // states of layouts have no digest in common that the metrics could show, so a step may have begun with others already
		if report, err = at(w, within); err != nil {
			return nil, err
		}
		if w.Step == 1 || report.Identical || report.First.Kind != "state" {
			break
		}
	}
	report.Levels = append(levels, report.levelStep(trace.Op))
	return report, nil
}

// CompareAt compares a pair of runs in one window.
func CompareAt(run RunFunc, w Window) (*Report, error) { return compareRuns(run, w) }

// undumped tells whether the kernel that was found is of another Call than the one whose bytes were kept: one that has no record at op level.
func (r *Report) undumped(dump string) bool {
	return !r.Identical && r.First.Verdict == "origin" && !r.Confirmed && r.Bytes == nil && r.A != nil && r.B != nil && r.First.Path() != dump
}

// suspects are the ranks to which no other brought their difference, with those that agree with them or differ as they do left out: what they
// wrote is known. All are, where a verdict needs others.
func (r *Report) suspects() (ranks trace.Set) {
	for _, v := range r.Ranks {
		switch v.Verdict {
		case "identical", "downstream":
		case "unresolved":
			return nil
		default:
			ranks = append(ranks, trace.Span{Lo: v.Rank, Hi: v.Rank})
		}
	}
	return ranks
}

// widened has the verdicts and the pattern of a report on more ranks, where this one is on a few of them.
func (r *Report) widened(before *Report) *Report {
	if len(r.Ranks) >= len(before.Ranks) {
		return r
	}
	own := map[int]RankVerdict{}
	for _, v := range r.Ranks {
		own[v.Rank] = v
	}
	ranks := slices.Clone(before.Ranks)
	for i, v := range ranks {
		if o, traced := own[v.Rank]; traced {
			ranks[i] = o
		}
	}
	r.Ranks, r.Pattern = ranks, before.Pattern
	return r
}

// unread tells whether what changed in memory shows in the fingerprint of all state alone: no Call of the step reads it.
func (r *Report) unread() bool {
	return !r.Identical && r.First.Verdict == "memory" && r.First.Kind == "metric"
}

// needsMore tells whether what was traced does not suffice: it agrees, or what differs came from other ranks.
func (r *Report) needsMore() bool {
	return r.Identical || r.First.Verdict == "unresolved" || r.First.Verdict == "downstream"
}

// Both does something for sides 0 and 1 of a pair at once and returns the first side's error, else the second's.
func Both(do func(side int) error) error {
	second := make(chan error)
	go func() { second <- do(1) }()
	return cmp.Or(do(0), <-second)
}

func compareRuns(run RunFunc, w Window) (*Report, error) {
	a, b, err := tracePair(run, w)
	if err != nil {
		return nil, err
	}
	r, err := Compare(a, b)
	if err != nil {
		return nil, err
	}
	r.Confirm(a.Dir, b.Dir)
	return r, nil
}

// tracePair runs both sides.
func tracePair(run RunFunc, w Window) (a, b *trace.Trace, err error) {
	var traces [2]*trace.Trace
	err = Both(func(side int) (err error) {
		traces[side], err = run(side, w)
		return err
	})
	return traces[0], traces[1], err
}

func (r *Report) levelStep(l trace.Level) LevelStep {
	return LevelStep{Level: l.String(), Compared: r.Records, RuledOut: r.ruledOut, First: r.First}
}
