package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"firstbit/lowp"
	"firstbit/parallel"
	"firstbit/reduce"
)

// Ordered is what one order of a sum makes of the operands of a Call.
type Ordered struct {
	Order     string      `json:"order"`
	Format    string      `json:"format"`
	Tree      string      `json:"tree"`
	Depth     int         `json:"depth"`
	Bound     int         `json:"bound_ulps"` // in roundings of Σ|x|
	Roundings int         `json:"roundings"`
	Error     Distance    `json:"error"`   // from the exact sum, rounded once
	Between   []float64   `json:"between"` // the share of elements that differ from those of each of the orders
	Alive     int         `json:"alive"`
	NS        float64     `json:"ns_per_element"` // of the Call's time, for each value that is added
	Hops      int         `json:"hops"`           // of a collective, per element: messages one after another
	Bytes     OrderedSent `json:"bytes"`
	Sum       reduce.Tree `json:"-"`
	out       []*rerun
}

// Distance is that of elements from others, in ulps of their format.
type Distance struct {
	Mean float64 `json:"mean"`
	P99  uint64  `json:"p99"`
	Max  uint64  `json:"max"`
}

// OrderedSent is the bytes that a collective sends for an element: of all ranks, between nodes, and by the rank that sends most.
type OrderedSent struct {
	All     int `json:"all"`
	Between int `json:"between_nodes"`
	OfRank  int `json:"of_rank"`
}

// Orders runs an extracted Call by each of the orders, 'ORDER[/FORMAT]', of one of its sums; empty: its first. Errors are measured against the
// order exact in fp32. It returns the sum's name and its leaves; where a Call has several sums of that name, the most.
func (x *Extracted) Orders(sum string, orders []string) (rows []Ordered, name string, leaves int, err error) {
	plan, err := reduce.ParsePlan(x.Ranks[0].Plan)
	if err != nil {
		return nil, "", 0, err
	}
	if len(plan.Reductions()) == 0 {
		return nil, "", 0, fmt.Errorf("%s: adds nothing: its plan is %q", x.Site.Path, plan)
	}
	if sum == "" {
		sum = plan.Reductions()[0].Name
	}
	run := func(order string) (reduce.Reduction, []*rerun, error) {
		item, err := reduce.ParsePlan(sum + ":" + order)
		var set reduce.Plan
		if err == nil {
			set, err = plan.With(item)
		}
		if err != nil {
			return reduce.Reduction{}, nil, err
		}
		calls, err := x.runAgain(set.String(), true)
		return set.Reduction(sum), calls, err
	}
	_, exact, err := run("exact")
	if err != nil {
		return nil, sum, 0, err
	}
	for _, c := range exact {
		leaves = max(leaves, c.leaves[sum])
	}
	if leaves == 0 {
		return nil, sum, 0, errors.New("the Call added nothing by " + sum)
	}
	for _, order := range orders {
		r, calls, err := run(order)
		if err != nil {
			return nil, sum, leaves, fmt.Errorf("--order %q: %w", order, err)
		}
		rows = append(rows, x.row(r, calls, exact, leaves))
	}
	for i := range rows {
		for j := range rows {
			rows[i].Between = append(rows[i].Between, share(rows[i].out, rows[j].out))
		}
	}
	return rows, sum, leaves, nil
}

// row is an order's, from the Calls that ran by it and by exact.
func (x *Extracted) row(r reduce.Reduction, calls, exact []*rerun, leaves int) Ordered {
	// Of some arrival, and of the first chunk, channel or owner.
	concrete := r.Order.Resolve(reduce.Context{Node: x.Config.Cluster.RanksPerNode, Arrival: func(n int) []int { return reduce.Permutation(1, n) }}, leaves)
	t := concrete.Tree(leaves)
	if fused := calls[0].fused[r.Name]; fused > 0 {
		t = concrete.Program(leaves).FusedTree(fused)
	}
	o := Ordered{Order: r.Order.String(), Format: strings.TrimPrefix(r.String(), r.Name+":"+r.Order.String()+"/"), Tree: t.String(), Depth: t.Depth(), Bound: t.Ulps(), Roundings: t.Roundings(), Alive: t.Alive(), Sum: t, out: calls}
	o.NS = perValue(calls, leaves)
	o.Error = distance(calls, exact)
	if layout, err := parallel.ParseLayout(x.Layout); err == nil && r.Name == "ranks" && layout.World() > 1 {
		sent, width := t.Traffic(x.Config.Cluster.RanksPerNode), lowp.Format.Bits(r.Acc)/8
		if r.Wire != lowp.FP32 {
			width = r.Wire.Bits() / 8
		}
		o.Hops, o.Bytes = sent.Hops, OrderedSent{sent.Messages * width, sent.Between * width, sent.OfRank * width}
	}
	return o
}

// perValue is nanoseconds for a value that is added. Of a collective the last rank to come adds for all, and it alone has not waited for others.
func perValue(calls []*rerun, leaves int) float64 {
	values, shortest := 0, calls[0].took
	for _, c := range calls {
		shortest = min(shortest, c.took)
		for _, in := range c.in {
			values += in.Len()
		}
	}
	if len(calls) == 1 {
		values = 0
		for _, out := range calls[0].out {
			values += out.Len() * leaves
		}
	}
	return float64(shortest.Nanoseconds()) / float64(max(values, 1))
}

// elementwise calls do with every element of the outputs that are no whole numbers.
func elementwise(a, b []*rerun, do func(f lowp.Format, x, y float32)) {
	for i, c := range a {
		for k, out := range c.out {
			other := b[i].out[k]
			for e, v := range out.F32() {
				do(out.Format, v, other.F32()[e])
			}
		}
	}
}

func distance(calls, exact []*rerun) (d Distance) {
	var all []uint64
	total := 0.0
	elementwise(calls, exact, func(f lowp.Format, x, y float32) {
		u := f.Ulps(x, y)
		if x == y { // −0 and +0 are one number
			u = 0
		}
		all = append(all, u)
		total += float64(u)
	})
	if len(all) == 0 {
		return d
	}
	slices.Sort(all)
	return Distance{total / float64(len(all)), all[(len(all)-1)*99/100], all[len(all)-1]}
}

// share is the share of elements with other bits.
func share(a, b []*rerun) float64 {
	n, other := 0, 0
	elementwise(a, b, func(f lowp.Format, x, y float32) {
		if n++; f.Encode(x) != f.Encode(y) {
			other++
		}
	})
	return float64(other) / float64(max(n, 1))
}
