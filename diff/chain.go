package diff

import (
	"slices"
	"strings"

	"firstbit/trace"
)

// Parted is a Call of a chain: what it read differed, by the one before it, and so does what it wrote.
type Parted struct {
	Step  int    `json:"step"`
	Micro int    `json:"microbatch"`
	Phase string `json:"phase"`
	Kind  string `json:"kind"`
	Path  string `json:"path"`
	Input string `json:"input"` // by which the one before it comes in; empty: it is the first
}

// Chain follows a difference from where two traces at op level part to a metric, on one rank, by the way with the fewest Calls. It is empty
// where the metric does not differ, or where other ranks lie between.
func Chain(a, b *trace.Trace, metric string) ([]Parted, error) {
	r, err := Compare(a, b)
	if err != nil || r.Identical || r.A == nil {
		return nil, err
	}
	ra, rb := recordsOf(a, r.First.Rank), recordsOf(b, r.First.Rank)
	p := align(trace.Rank{Rank: r.First.Rank, Records: ra}, trace.Rank{Rank: r.First.Rank, Records: rb}, trace.Op)
	reached, begun := map[string]*link{}, false // by phase and path of what wrote last
	for i := p.first; i < len(p.a); i++ {
		rec := &p.a[i]
		if rec.Kind == "module" || rec.Kind == "kernel" {
			continue
		}
		path := trace.Path(rec.Scope, rec.Name)
		key := rec.Phase + " " + path
		var l *link
		if j := p.match[i]; j < 0 || differs(rec, &p.b[j]) {
			if l = p.reach(rec, reached); !begun {
				l, begun = &link{}, true
			}
		}
		if l == nil {
			delete(reached, key)
			continue
		}
		l.Parted = Parted{rec.Iteration, rec.Microbatch, rec.Phase, rec.Kind, path, l.Input}
		reached[key] = l
		if rec.Kind == "metric" && rec.Name == metric {
			return l.chain(), nil
		}
	}
	return nil, nil
}

type link struct {
	Parted
	before *link
	depth  int
}

// reach is the record as the next of the shortest chain that reaches one of its inputs; nil: none does.
func (p *pair) reach(rec *trace.Record, reached map[string]*link) *link {
	var best *link
	for _, in := range rec.In {
		if in.From == nil {
			continue
		}
		from, _, _ := strings.Cut(*in.From, "#")
		if l := reached[from]; l != nil && (best == nil || l.depth+1 < best.depth) {
			best = &link{Parted: Parted{Input: in.Name}, before: l, depth: l.depth + 1}
		}
	}
	return best
}

func (l *link) chain() []Parted {
	var c []Parted
	for ; l != nil; l = l.before {
		c = append(c, l.Parted)
	}
	slices.Reverse(c)
	return c
}

func recordsOf(t *trace.Trace, rank int) []trace.Record {
	for _, r := range t.Ranks {
		if r.Rank == rank {
			return r.Records
		}
	}
	return nil
}
