package diff

import (
	"slices"

	"firstbit/trace"
)

// judge combines the ranks' verdicts into the report's.
func (r *Report) judge(pairs []*pair, groups map[string][]int, oneSchedule bool) {
	all := newWorld(pairs, groups)
	all.regroups = slices.ContainsFunc(r.ConfigDifferences, clusterField)
	verdicts := make([]string, len(pairs))
	for l, p := range pairs {
		p.toReader(all)
		verdicts[l] = "identical"
		v := RankVerdict{Rank: p.rank, Verdict: verdicts[l]}
		if !p.identical() {
			verdicts[l], _ = p.verdict(all)
			f := p.finding(verdicts[l])
			v = RankVerdict{p.rank, verdicts[l], &f}
		}
		r.Ranks = append(r.Ranks, v)
	}
	at := all.first(verdicts)
	if at == none {
		r.strays(pairs)
		return
	}
	first := pairs[at]
	r.Identical, r.First = false, r.Ranks[at].First
	_, why := first.verdict(all)
	r.Evidence = append(r.Evidence, why...)
	r.Action = actions[r.First.Verdict]
	r.A, r.B = first.records()
	if c, why := class(r.First.Verdict, r.A, r.B, r.ConfigDifferences, oneSchedule); c != "" || why != nil {
		if side := all.omitted(first.either()); c == "hardware" && side != "" {
			c, why = "control", []string{"in run " + side + " every member goes on with what it brought: the collective did not run"}
		}
		if c != "" {
			r.Class = &c
		}
		r.Evidence = append(r.Evidence, why...)
	}
	r.pattern(places(pairs))
	for i := range first.a {
		if j := first.match[i]; j >= 0 && differs(&first.a[i], &first.b[j]) {
			r.Differing = append(r.Differing, &first.a[i])
		}
	}
	r.roots(all)
	r.settle(first)
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

// either is the record of the first mismatch: run A's where it has one.
func (p *pair) either() *trace.Record {
	a, b := p.records()
	if a == nil {
		return b
	}
	return a
}

func (p *pair) finding(verdict string) Finding { return findingOf(p.either(), verdict, p.level) }

func findingOf(a *trace.Record, verdict string, level trace.Level) Finding {
	return Finding{verdict, a.At(level)}
}

// roots lists every record of the first diverging iteration whose inputs are equal and outputs
// are not: independent origins, since none can be a consequence of another. Where its kernels
// were traced they stand for a Call. A number that the loop or the configuration sets differs wherever it is read, so of those Calls the
// first is listed.
func (r *Report) roots(all *world) {
	for l, p := range all.pairs {
		if p.identical() {
			continue
		}
		a, _ := p.records()
		if a == nil {
			continue
		}
		for i := p.first; i < len(p.a); i++ {
			rec, j := &p.a[i], p.match[i]
			d := p.disturbance(i)
			switch {
			case d != nil && j >= 0 && rec.Iteration == a.Iteration:
				if !d.again { // whoever reads it later reads the same
					r.Roots = append(r.Roots, findingOf(rec, "memory", p.level))
				}
			case j < 0 || rec.Iteration != a.Iteration || rec.View || len(rec.Flags)+len(p.b[j].Flags) > 0:
			case rec.Kind == "metric" || rec.Kind == "module" || rec.Kind == "state" || rec.Kind == "recompute":
			case p.level >= trace.Kernel && rec.Kind == "op" && i > 0 && p.a[i-1].Kind == "kernel":
			case all.regrouped(rec, &p.b[j]), i == p.first && r.Ranks[l].Verdict == "origin" && scalarDiffers(rec, &p.b[j]) != nil:
				r.Roots = append(r.Roots, findingOf(rec, "origin", p.level))
			case sigsEqual(brought(rec), brought(&p.b[j])) && !sigsEqual(rec.Out, p.b[j].Out):
				if verdict, _ := p.outputsDiffer(rec, &p.b[j], all); verdict != "origin" { // a member or the sender brought it
					continue
				}
				r.Roots = append(r.Roots, findingOf(rec, "origin", p.level))
			}
		}
	}
}
