package report

import (
	"firstbit/diff"
	"firstbit/reduce"
	"firstbit/trace"
)

// Call is one record of a step in both runs.
type Call struct {
	Path    string         `json:"path"` // scope and name
	Phase   string         `json:"phase"`
	Kind    string         `json:"kind"`
	Micro   int            `json:"microbatch"`
	Plan    [2]string      `json:"plan"`
	In      []Tensor       `json:"in"`
	Out     []Tensor       `json:"out"`
	Differs bool           `json:"differs"` // it wrote other bits, or one run has it alone
	Leaves  map[string]int `json:"leaves"`  // of every sum of its plan, where they are known
}

// Tensor is what a Call read or wrote.
type Tensor struct {
	Name  string `json:"name"`
	From  string `json:"from,omitempty"` // what wrote an input
	Dtype string `json:"dtype"`
	Shape []int  `json:"shape"`
	A     string `json:"a"`           // digest
	B     string `json:"b,omitempty"` // where it is another
}

// callsOf are the Calls of a step on a rank, as run A has them.
func callsOf(a, b *trace.Trace, step, rank int, leaves *leaves) []Call {
	calls, other := []Call{}, map[trace.Key]*trace.Record{}
	each(b, step, rank, func(r *trace.Record) { other[r.Key()] = r })
	each(a, step, rank, func(r *trace.Record) {
		c := Call{Path: trace.Path(r.Scope, r.Name), Phase: r.Phase, Kind: r.Kind, Micro: r.Microbatch, Plan: [2]string{r.Plan, r.Plan}, In: []Tensor{}, Out: []Tensor{}}
		o := other[r.Key()]
		if o == nil {
			o, c.Differs = &trace.Record{}, true
		}
		c.Plan[1], c.Leaves = o.Plan, leaves.of(r.Phase, c.Path)
		c.In, _ = tensors(r.In, o.In)
		var wrote bool
		c.Out, wrote = tensors(r.Out, o.Out)
		c.Differs = c.Differs || wrote
		calls = append(calls, c)
	})
	return calls
}

// each calls for the records of Calls of a step on a rank.
func each(t *trace.Trace, step, rank int, do func(r *trace.Record)) {
	for i := range t.Ranks {
		for j := range t.Ranks[i].Records {
			r := &t.Ranks[i].Records[j]
			if r.Rank == rank && r.Iteration == step && r.Kind != "module" && r.Kind != "kernel" && r.Kind != "metric" {
				do(r)
			}
		}
	}
}

// tensors pairs those of both runs; differ tells whether any differs.
func tensors(a, b []trace.Sig) (list []Tensor, differ bool) {
	list = []Tensor{}
	for i, g := range a {
		if g.Scalar {
			continue
		}
		t := Tensor{Name: g.Name, Dtype: g.Dtype, Shape: g.Shape, A: g.Digest}
		if g.From != nil {
			t.From = *g.From
		}
		if i < len(b) && b[i].Digest != g.Digest {
			t.B, differ = b[i].Digest, true
		}
		list = append(list, t)
	}
	return list, differ || len(a) != len(b)
}

// Sum is the sum in which the root's two runs are most unlike: the one that they add in another order, or else the first.
type Sum struct {
	Name   string    `json:"name"` // in the plan
	Leaves int       `json:"leaves"`
	Order  [2]string `json:"order"` // as the plan has it, with its format
	Tree   [2]string `json:"tree"`  // parenthesised; empty: too large to write out
	Came   [2][]int  `json:"came"`  // the order in which contributions arrived; empty: it does not matter
	// Walked are contributions whose parts were added from the end.
	Walked [2][]int `json:"walked"`
}

// maxLeaves bounds what is written out.
const maxLeaves = 1024

// sumOf reads the records of the root. Leaves are known of sums that arrive and of Calls that were watched.
func sumOf(r *diff.Report, known *leaves, node int) *Sum {
	if r.A == nil || r.B == nil || r.First == nil {
		return nil
	}
	plans := [2]reduce.Plan{}
	records := [2]*trace.Record{r.A, r.B}
	for side, rec := range records {
		var err error
		if plans[side], err = reduce.ParsePlan(rec.Plan); err != nil {
			return nil
		}
	}
	all := known.of(r.First.Phase, r.First.Path())
	var best *Sum
	for _, red := range plans[0].Reductions() {
		if !plans[1].Has(red.Name) {
			continue
		}
		s := &Sum{Name: red.Name, Leaves: all[red.Name]}
		for side, rec := range records {
			s.read(side, plans[side].Reduction(red.Name), rec, element(r), known.fusedBy(r.First.Phase, r.First.Path(), red.Name), node)
		}
		if best == nil || best.alike() && !s.alike() {
			best = s
		}
	}
	return best
}

// alike tells whether both runs add in one order.
func (s *Sum) alike() bool {
	return s.Tree[0] == s.Tree[1] && s.Order[0] == s.Order[1] && len(s.Walked[0])+len(s.Walked[1]) == 0
}

func element(r *diff.Report) int {
	if r.Bytes == nil {
		return 0
	}
	return r.Bytes.Element
}

// read is the sum on one side.
func (s *Sum) read(side int, red reduce.Reduction, rec *trace.Record, element, fused, node int) {
	s.Order[side] = red.String()[len(red.Name)+1:]
	for _, a := range rec.Arrivals {
		if a.Name == red.Name {
			s.Came[side] = a.Order
		}
	}
	if red.Order.Arrives() {
		s.partials(side, rec, element)
		if s.Leaves = max(s.Leaves, len(s.Came[side])); len(s.Came[side]) != s.Leaves {
			return
		}
	}
	if s.Leaves == 0 || s.Leaves > maxLeaves || !red.Order.Fits(s.Leaves) {
		return
	}
	order := red.Order.Resolve(reduce.Context{Node: node, Arrival: func(n int) []int {
		if n == len(s.Came[side]) {
			return s.Came[side]
		}
		return reduce.Permutation(1, n)
	}}, s.Leaves)
	t := order.Tree(s.Leaves)
	if fused > 0 {
		t = order.Program(s.Leaves).FusedTree(fused)
	}
	s.Tree[side] = t.String()
}

// partials are the contributions to the block of rows that holds the element, in the order of their addition, where the record has them.
func (s *Sum) partials(side int, rec *trace.Record, element int) {
	block := 0
	for _, p := range rec.Partials {
		if p.Row <= element {
			block = max(block, p.Row)
		}
	}
	var came []int
	for _, p := range rec.Partials {
		if p.Row != block {
			continue
		}
		came = append(came, p.Tile)
		if p.Reverse {
			s.Walked[side] = append(s.Walked[side], p.Tile)
		}
	}
	if len(came) > 1 {
		s.Came[side] = came
	}
}
