package swarm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Result is what a swarm came to, or some shards of one.
//
//	precision  of what names a root, how much names the right one: Call, rank, step, microbatch and phase
//	recall     of the faults that lie in what was traced, how many are named so
//	class      how many of them with the right verdict and class besides
type Result struct {
	Seed        uint64            `json:"seed"`
	Of          int               `json:"of"`     // cases of the whole swarm
	Shards      []Span            `json:"shards"` // that are in it
	N           int               `json:"n"`
	Precision   float64           `json:"precision"`
	Recall      float64           `json:"recall"`
	Class       float64           `json:"class"`
	FalseAlarms int               `json:"false_alarms"` // of clean pairs, and of faults that left the same bits
	Missed      []Missed          `json:"missed"`
	Kinds       map[string]*Count `json:"kinds"`
}

// Span is the cases from Lo to below Hi.
type Span struct {
	Lo int `json:"lo"`
	Hi int `json:"hi"`
}

// Count is how cases of one kind went. What was drawn and is no case (harmless, refused, unseen) was drawn again.
type Count struct {
	N         int `json:"n"`
	Right     int `json:"right"`
	Abstained int `json:"abstained"`
	Harmless  int `json:"harmless"` // the fault left the same bits
	Refused   int `json:"refused"`  // it does not fit its Call, or ended the run
	Unseen    int `json:"unseen"`   // by the records no Call of the fault is where bits part
	Located   int `json:"located"`
	Named     int `json:"named"`
}

func (c *Count) add(o *Count) {
	c.N, c.Right, c.Abstained, c.Harmless = c.N+o.N, c.Right+o.Right, c.Abstained+o.Abstained, c.Harmless+o.Harmless
	c.Refused, c.Unseen, c.Located, c.Named = c.Refused+o.Refused, c.Unseen+o.Unseen, c.Located+o.Located, c.Named+o.Named
}

// Missed is a case of which something else was said than is right.
type Missed struct {
	Kind   string   `json:"kind"`
	Said   string   `json:"said"`
	Right  []string `json:"right"`
	Replay string   `json:"replay"` // for --replay
}

func (r *Result) add(d *drawn) {
	if r.Kinds[d.Kind] == nil {
		r.Kinds[d.Kind] = &Count{}
	}
	number := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	if d.trial.harmless { // and was found different
		r.FalseAlarms++
	}
	r.Kinds[d.Kind].add(&Count{1, number(d.right), number(d.abstained), d.harmless, d.refused, d.unseen, number(d.located), number(d.named)})
	if d.right {
		return
	}
	if d.err != nil {
		d.said = "error: " + d.err.Error()
	}
	m := Missed{Kind: d.Kind, Said: d.said, Right: []string{}, Replay: d.Text()}
	for _, a := range d.answers {
		m.Right = append(m.Right, a.String())
	}
	r.Missed = append(r.Missed, m)
}

// settle makes the ratios of the counts.
func (r *Result) settle() {
	var sum, within Count
	alarms := 0
	for name, c := range r.Kinds { // sums: order reaches nothing
		sum.add(c)
		switch k := kindOf(name); {
		case name == "clean":
			alarms = c.N - c.Right
		case !k.outside:
			within.add(c)
		}
	}
	r.N = sum.N
	r.Precision, r.Recall, r.Class = ratio(sum.Located, sum.Named), ratio(within.Located, within.N), ratio(within.Right, within.N)
	r.FalseAlarms += alarms
}

// ratio is 1 where there is nothing.
func ratio(a, b int) float64 {
	if b == 0 {
		return 1
	}
	return float64(a) / float64(b)
}

// Merge puts shards of one swarm together. Some may be missing, none may be there twice.
func Merge(parts []*Result) (*Result, error) {
	slices.SortFunc(parts, func(a, b *Result) int { return cmp.Compare(a.Shards[0].Lo, b.Shards[0].Lo) })
	r := &Result{Seed: parts[0].Seed, Of: parts[0].Of, Kinds: map[string]*Count{}, Missed: []Missed{}}
	for _, p := range parts {
		if p.Seed != r.Seed || p.Of != r.Of {
			return nil, fmt.Errorf("shards of seed %d with %d cases and of seed %d with %d: must be of one swarm", r.Seed, r.Of, p.Seed, p.Of)
		}
		for _, s := range p.Shards {
			if n := len(r.Shards); n > 0 && s.Lo < r.Shards[n-1].Hi {
				return nil, fmt.Errorf("cases %d to %d: are in two shards", s.Lo, min(s.Hi, r.Shards[n-1].Hi)-1)
			} else if n > 0 && s.Lo == r.Shards[n-1].Hi {
				r.Shards[n-1].Hi = s.Hi
			} else {
				r.Shards = append(r.Shards, s)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(p.Kinds)) {
			if kindOf(name) == nil {
				return nil, fmt.Errorf("kind %q: no swarm has it", name)
			}
			if r.Kinds[name] == nil {
				r.Kinds[name] = &Count{}
			}
			r.Kinds[name].add(p.Kinds[name])
		}
		r.Missed = append(r.Missed, p.Missed...)
		r.FalseAlarms += p.FalseAlarms - clean(p)
	}
	r.settle()
	return r, nil
}

// clean is the false alarms of clean pairs, which settle counts.
func clean(r *Result) int {
	if c := r.Kinds["clean"]; c != nil {
		return c.N - c.Right
	}
	return 0
}

// Complete tells whether all cases of the swarm are there.
func (r *Result) Complete() bool {
	return len(r.Shards) == 1 && r.Shards[0] == Span{0, r.Of}
}
