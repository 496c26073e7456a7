package diff

import (
	"firstbit/trace"
)

// judge combines the ranks' verdicts into the report's.
func (r *Report) judge(pairs []*pair, oneSchedule bool) {
	var diverged []*pair
	var first *pair
	for _, p := range pairs {
		if p.identical() {
			r.Ranks = append(r.Ranks, RankVerdict{Rank: p.rank, Verdict: "identical"})
			continue
		}
		verdict, _ := p.verdict(pairs)
		f := p.finding(verdict)
		r.Ranks = append(r.Ranks, RankVerdict{p.rank, verdict, &f})
		diverged = append(diverged, p)
		if first == nil || earlier(p, first) || verdict == "origin" && r.First.Verdict != "origin" ||
			verdict == "restore" && r.First.Verdict == "downstream" {
			first, r.First = p, &f
		}
	}
	if first == nil {
		return
	}
	r.Identical = false
	verdict, why := first.verdict(pairs)
	r.Evidence = append(r.Evidence, why...)
	r.Action = actions[verdict]
	r.A, r.B = first.records()
	if c, why := class(verdict, r.A, r.B, r.ConfigDifferences, oneSchedule); c != "" {
		r.Class = &c
		r.Evidence = append(r.Evidence, why...)
	}
	own := 0 // ranks that did not have it from another
	for _, v := range r.Ranks {
		if v.Verdict != "identical" && v.Verdict != "downstream" {
			own++
		}
	}
	pattern := "subset"
	switch {
	case own == 1 || len(diverged) == 1:
		pattern = "one-rank"
	case own == len(pairs):
		pattern = "all-ranks"
	}
	r.Pattern = &pattern
	for i := range first.a {
		if j := first.match[i]; j >= 0 && differs(&first.a[i], &first.b[j]) {
			r.Differing = append(r.Differing, &first.a[i])
		}
	}
	r.roots(diverged, pairs)
	r.settle(first)
}

// earlier compares places in the run: iteration, microbatch, then the order of phases.
func earlier(p, q *pair) bool {
	a, _ := p.records()
	b, _ := q.records()
	if a == nil || b == nil {
		return false
	}
	return a.Iteration < b.Iteration || a.Iteration == b.Iteration && a.Microbatch < b.Microbatch
}

// records are the two records of the first mismatch.
func (p *pair) records() (a, b *trace.Record) {
	if p.extraB >= 0 {
		return nil, &p.b[p.extraB]
	}
	a = &p.a[p.first]
	if j := p.match[p.first]; j >= 0 {
		b = &p.b[j]
	}
	return a, b
}

func (p *pair) finding(verdict string) Finding {
	a, b := p.records()
	if a == nil {
		a = b
	}
	return findingOf(a, verdict, p.level)
}

func findingOf(a *trace.Record, verdict string, level trace.Level) Finding {
	return Finding{Verdict: verdict, Rank: a.Rank, Iteration: a.Iteration, Microbatch: a.Microbatch, Phase: a.Phase,
		Kind: a.Kind, Name: a.Name, Scope: a.Scope, Level: level.String()}
}

const maxRoots = 100

// roots lists every record of the first diverging iteration whose inputs are equal and outputs
// are not: independent origins, since none can be a consequence of another. At kernel level a
// Call's kernels stand for it, and a recomputation's Calls for it from op level on.
func (r *Report) roots(diverged, all []*pair) {
	for _, p := range diverged {
		a, _ := p.records()
		if a == nil {
			continue
		}
		for i := p.first; i < len(p.a) && len(r.Roots) < maxRoots; i++ {
			rec, j := &p.a[i], p.match[i]
			switch {
			case j < 0 || rec.Iteration != a.Iteration || rec.View || len(rec.Flags) > 0:
			case rec.Kind == "metric" || rec.Kind == "module" || rec.Kind == "state":
			case p.level >= trace.Kernel && rec.Kind == "op", p.level >= trace.Op && rec.Kind == "recompute":
			case sigsEqual(rec.In, p.b[j].In) && !sigsEqual(rec.Out, p.b[j].Out):
				if verdict, _ := p.outputsDiffer(rec, all); verdict != "origin" { // a member brought it
					continue
				}
				r.Roots = append(r.Roots, findingOf(rec, "origin", p.level))
			}
		}
	}
}
