package diff

import (
	"fmt"
	"slices"

	"firstbit/trace"
)

// members judges a collective: it is an origin only if no member's input differs.
func members(a *trace.Record, all []*pair) (string, []string) {
	for _, p := range all {
		for i := range p.a {
			k := p.a[i].Key()
			k.Rank = a.Rank
			if k != a.Key() || p.a[i].Group != a.Group {
				continue
			}
			if j := p.match[i]; j >= 0 && !sigsEqual(p.a[i].In, p.b[j].In) {
				return "downstream", []string{fmt.Sprintf("the input of member rank %d differs already", p.rank)}
			}
		}
	}
	if untraced := missing(a.Group, all); len(untraced) > 0 {
		return "unresolved", []string{fmt.Sprintf("the inputs of all traced members are equal, outputs differ: trace the other members, ranks %v", untraced)}
	}
	return "origin", []string{"the inputs of all members are equal, outputs differ"}
}

// missing lists the members of a group that are not traced.
func missing(group string, all []*pair) (ranks []int) {
	for _, rank := range all[0].groups[group] {
		if !slices.ContainsFunc(all, func(p *pair) bool { return p.rank == rank }) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}
