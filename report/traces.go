package report

import (
	"cmp"
	"fmt"

	"firstbit/diff"
	"firstbit/run"
	"firstbit/trace"
)

// OfTraces makes the page of two traces and of the verdict on them. What they do not hold, scores, orders of arrival and bytes, comes from the
// runs that they describe, which are run again: dir is for what that writes. Where they cannot be, or come to other bits, the page says so.
func OfTraces(a, b *trace.Trace, r *diff.Report, dir string) (*Page, error) {
	page := &Page{Runs: [2]string{a.Dir, b.Dir}, Steps: tracedSteps(a, b), Calls: []Call{}, Chain: []diff.Parted{}, Missing: []string{}}
	var err error
	if page.Spread, err = diff.SpreadOf(a, b); err != nil {
		return nil, err
	}
	if r.First != nil {
		chain, err := diff.Chain(a, b, "loss")
		if err != nil {
			return nil, err
		}
		page.Chain = append(page.Chain, chain...)
	}
	again, why := replay(a, b)
	if why != "" {
		page.Missing = append(page.Missing, why)
		page.found(r, [2]*trace.Trace{a, b}, &leaves{}, 1)
		return page, nil
	}
	page.Steps, page.Routes = stepsOf(again.out[0].Steps, again.out[1].Steps), routesOf(again.out[0].Routes, again.out[1].Routes)
	node := again.specs[0].Config.Cluster.RanksPerNode
	page.found(r, [2]*trace.Trace{a, b}, &again.leaves, node)
	if r.First == nil || r.First.Verdict != "origin" {
		return page, nil
	}
	pair := run.Pair{Specs: again.specs, Dir: dir}
	deep, err := diff.Inside(pair.Trace, r.First)
	if err != nil {
		page.Missing = append(page.Missing, "the root's bytes and orders of addition: "+err.Error())
		return page, nil
	}
	page.Sum = cmp.Or(sumOf(deep, &again.leaves, node), page.Sum)
	page.Bytes = cmp.Or(page.Bytes, deep.Bytes)
	return page, nil
}

// replay runs the runs of two traces again, up to the last step that they hold; why says why it cannot.
func replay(traces ...*trace.Trace) (w *watched, why string) {
	const lost = "scores, orders of arrival and what the traces hold no bytes of: "
	var specs [2]run.Spec
	for side, t := range traces {
		var err error
		if specs[side], err = run.Recorded(t); err != nil {
			return nil, lost + err.Error()
		}
		specs[side].Until = lastStep(t)
	}
	w, err := watch(specs, trace.Off, nil)
	if err != nil {
		return nil, lost + err.Error()
	}
	for side, t := range traces {
		if step := run.PartsFrom(w.rank0[side], t); step > 0 {
			return nil, lost + fmt.Sprintf("the run of trace %s comes to other bits when it is run again, from step %d on", t.Dir, step)
		}
	}
	return w, ""
}

func lastStep(t *trace.Trace) int {
	last := 1
	for _, rank := range t.Ranks {
		for i := range rank.Records {
			last = max(last, rank.Records[i].Iteration)
		}
	}
	return last
}
