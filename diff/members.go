package diff

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/trace"
)

// world is the pairs of all ranks that both traces have, and how run A's records stand to each other.
type world struct {
	*order
	pairs  []*pair
	judged map[event]judgement
	// regroups: the configurations differ in how ranks exchange what they compute.
	regroups bool
}

type judgement struct {
	verdict, class string
	why            []string
}

func newWorld(pairs []*pair, groups map[string][]int) *world {
	var ranks []int
	var lanes [][]trace.Record
	for _, p := range pairs {
		ranks, lanes = append(ranks, p.rank), append(lanes, p.a)
	}
	return &world{orderOf(ranks, lanes, groups), pairs, map[event]judgement{}, false}
}

// changed tells whether what a record brings differs between the runs.
func (w *world) changed(s spot) bool {
	p := w.pairs[s.lane]
	j := p.match[s.at]
	return j >= 0 && (!sigsEqual(brought(&p.a[s.at]), brought(&p.b[j])) || p.disturbance(s.at) != nil || overwritten(&p.a[s.at], &p.b[j]) != nil)
}

// collective judges one whose inputs are equal on its rank: it is an origin only if no member's differ. All of its members hear the same.
func (w *world) collective(a *trace.Record) (string, []string) {
	e := eventOf(a)
	j, ok := w.judged[e]
	if !ok {
		j.verdict, j.why = w.judgeMembers(a)
		w.judged[e] = j
	}
	return j.verdict, j.why
}

func (w *world) judgeMembers(a *trace.Record) (string, []string) {
	var from []int
	compared := map[int]bool{} // ranks of which both traces have the record
	for _, m := range w.members(a) {
		compared[w.ranks[m.lane]] = w.pairs[m.lane].match[m.at] >= 0
		if w.changed(m) {
			from = append(from, w.ranks[m.lane])
		}
	}
	untraced := slices.DeleteFunc(slices.Clone(w.groups[a.Group]), func(rank int) bool { return compared[rank] })
	switch {
	case len(from) > 0:
		return "downstream", []string{fmt.Sprintf("the input of %s differs already", membersText(from))}
	case len(untraced) > 0:
		return "unresolved", []string{fmt.Sprintf("the inputs of all traced members are equal, outputs differ: trace the other members, ranks %v", untraced)}
	}
	return "origin", []string{"the inputs of all members are equal, outputs differ"}
}

// omitted names the run in which a collective that leaves every member the same did not run: all of them go on with what they brought, bit for bit, and
// in the other run they do not. Empty: it ran in both.
func (w *world) omitted(a *trace.Record) string {
	if a.Kind != "collective" || !strings.HasPrefix(a.Kernel, "all_reduce") {
		return ""
	}
	own := [2]bool{true, true}
	for _, m := range w.members(a) {
		p := w.pairs[m.lane]
		j := p.match[m.at]
		if j < 0 {
			return ""
		}
		own[0], own[1] = own[0] && keepsItsOwn(&p.a[m.at]), own[1] && keepsItsOwn(&p.b[j])
	}
	switch {
	case own[0] == own[1]:
		return ""
	case own[0]:
		return "A"
	}
	return "B"
}

// keepsItsOwn tells whether everything that a record writes is what it read.
func keepsItsOwn(r *trace.Record) bool {
	return !slices.ContainsFunc(r.Out, func(out trace.Sig) bool {
		return !slices.ContainsFunc(r.In, func(in trace.Sig) bool { return in.Digest == out.Digest })
	})
}

func membersText(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("member rank %d", ranks[0])
	}
	return fmt.Sprintf("member ranks %v", ranks)
}

// regrouped tells whether the configurations have the record read other tensors, and with a collective its members' too: one that reads
// something else for another reason brings the difference to all.
func (w *world) regrouped(a, b *trace.Record) bool {
	if !w.regroups || !regrouped(a, b) {
		return false
	}
	for _, m := range w.members(a) {
		p := w.pairs[m.lane]
		if j := p.match[m.at]; j < 0 || !regrouped(&p.a[m.at], &p.b[j]) {
			return false
		}
	}
	return true
}

// received judges a receive on what was sent: equal, then it changed on its way, in the Call that took it.
func (w *world) received(a *trace.Record) (string, []string) {
	k, ok := peer(a)
	if !ok {
		return "unresolved", []string{"a receive is judged on its sender's record, and this one names no sender"}
	}
	from, ok := w.sender(a)
	switch {
	case !ok:
		return "unresolved", []string{fmt.Sprintf("a receive is judged on its sender's record: trace rank %d, which sent it in %s %s", k.Rank, k.Phase, k.Name)}
	case w.pairs[from.lane].match[from.at] < 0:
		return "downstream", []string{fmt.Sprintf("rank %d sent it in one run only", k.Rank)}
	case w.changed(from):
		return "downstream", []string{fmt.Sprintf("what rank %d sent differs already", k.Rank)}
	}
	return "origin", []string{fmt.Sprintf("what rank %d sent is equal, what was received differs", k.Rank)}
}

// first is the lane whose mismatch explains the others: an origin where there is one, else what no other rank brought, with no other of
// its kind before it in the happens-before order; of independent ones the earliest step, microbatch and rank. none: nothing differs.
func (w *world) first(verdicts []string) int {
	strength := func(verdict string) int {
		switch verdict {
		case "identical":
			return 0
		case "downstream":
			return 1
		case "origin", "memory", "restore":
			return 3
		}
		return 2
	}
	most := 0
	for _, v := range verdicts {
		most = max(most, strength(v))
	}
	if most == 0 {
		return none
	}
	places := make([]int, len(verdicts))
	for l, v := range verdicts {
		places[l] = none
		if strength(v) == most {
			places[l] = w.pairs[l].place
		}
	}
	at := none
	for l, first := range w.earliest(places) {
		if first && places[l] != none && (at == none || earlier(w.pairs[l], w.pairs[at])) {
			at = l
		}
	}
	return at
}

// earlier compares places in the run: iteration, then microbatch.
func earlier(p, q *pair) bool {
	a, b := p.either(), q.either()
	return a.Iteration < b.Iteration || a.Iteration == b.Iteration && a.Microbatch < b.Microbatch
}
