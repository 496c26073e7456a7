package run

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"firstbit/device"
	"firstbit/reduce"
)

// RevealedSum is what the outputs of a Call say about one of the sums in its plan.
type RevealedSum struct {
	Site    Site
	Kernel  string
	Plan    string
	Sum     string // of the plan; empty: it has none
	Leaves  int
	Operand string // whose elements are the leaves, or what they depend on; empty: none was found
	By      string // how a leaf depends on its element: values, squares, exponentials
	Present []int  // the leaves that were asked about
	Planned *bool  // the tree is the plan's; nil: that does not say a tree before it is known where, when or in what an element is added
	reduce.Revealed
}

// Revealing is which Calls of a run RevealCalls asks.
type Revealing struct {
	Site           // Path is a GLOB, and an empty Phase every one
	Sum     string // empty: every sum
	Rank    int    // one that has the Calls
	Element int    // of a collective: which element of the message
}

// Classes of sums of which there is no tree to show.
const (
	idle   = "idle"
	single = "one tree"
	hidden = "hidden"
	noSum  = "not a sum"
)

// leavesMost bounds the sums that are asked: a question runs the Call.
const leavesMost = 1024

// RevealCalls runs a Spec up to a step and recovers the order of sums of its Calls from their outputs alone.
//
// Which elements of which operand are the leaves of a sum is found by trying: the sum is put into orders that are known, and elements
// are its leaves if what the Call writes tells all of these orders from one another. Then the plan of the run is asked, by reduce.RevealBox
// where an element that is written is the sum itself, else by reduce.RevealLost.
//
// Errors: those of the run; Calls or sums that there are not.
func RevealCalls(s Spec, q Revealing) ([]RevealedSum, error) {
	if err := q.among(s, q.Rank); err != nil {
		return nil, err
	}
	if s.Config.Precision == "fp64" {
		return nil, errors.New("precision fp64: what is lost in a large value is asked of sums in fp32 or less")
	}
	var mu sync.Mutex
	var all []RevealedSum
	there, sums := map[string]bool{}, map[string]bool{}
	var refused error
	g := &probing{waiting: map[string]*probe{}}
	g.wants = func(rank int, c *device.Call) bool {
		if c.ID.Step != q.Step || c.ID.Micro != q.Micro || q.Phase != "" && c.ID.Phase.String() != q.Phase {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		there[c.ID.Path] = true
		return c.Matches(q.Path) && (rank == q.Rank || c.Kind == device.Collective)
	}
	g.of = func(p *probe) {
		if !slices.ContainsFunc(p.members, func(m *probed) bool { return m.rank == q.Rank }) {
			return
		}
		found, err := p.revealAll(q)
		mu.Lock()
		defer mu.Unlock()
		refused = cmp.Or(refused, err)
		for _, r := range p.plan.Reductions() {
			sums[r.Name] = true
		}
		all = append(all, found...)
	}
	s.Until = q.Step
	j := &job{Spec: &s, inner: g.middleware}
	o, err := j.run()
	switch err = cmp.Or(err, refused); {
	case err != nil:
		return nil, err
	case o.Missed != nil:
		return nil, o.Missed
	case len(all) == 0 && len(sums) > 0:
		return nil, fmt.Errorf("--sum: %s", nearest("sum", q.Sum, sums))
	case len(all) == 0:
		return nil, fmt.Errorf("%s: in step %d, microbatch %d, on rank %d: %s", q.Path, q.Step, q.Micro, q.Rank, nearest("Call", q.Path, there))
	}
	return all, nil
}

// revealAll is every sum that is asked about; of a Call that is named and has none, that it is no sum.
func (p *probe) revealAll(q Revealing) (all []RevealedSum, err error) {
	c := p.members[p.self].call
	site := Site{c.ID.Path, c.ID.Phase.String(), c.ID.Step, c.ID.Micro}
	if len(p.plan.Reductions()) == 0 && q.Sum == "" && !strings.ContainsAny(q.Path, "*?") {
		r := RevealedSum{Site: site, Kernel: c.Kernel.Name, Plan: p.plan.String()}
		r.Revealed = p.noSum()
		return []RevealedSum{r}, p.err
	}
	for _, r := range p.plan.Reductions() {
		if q.Sum != "" && q.Sum != r.Name {
			continue
		}
		found, err := p.reveal(r, q.Element)
		if err != nil {
			return nil, err
		}
		found.Site, found.Kernel, found.Plan, found.Sum = site, c.Kernel.Name, p.plan.String(), r.Name
		all = append(all, found)
	}
	return all, p.err
}

// findMost is how many sets of leaves are tried beside one of which the order is confirmed, or while none is.
const findMost = 8

// reveal recovers the order of one sum of the plan.
func (p *probe) reveal(r reduce.Reduction, element int) (out RevealedSum, err error) {
	c := p.members[p.self].call
	out.Leaves, out.Tree = p.leaves()[r.Name], reduce.Empty
	switch {
	case out.Leaves == 0:
		out.Class, out.Detail = idle, "the Call added nothing by it"
		return out, nil
	case out.Leaves <= 2:
		out.Class, out.Detail = single, "of so few leaves there is one tree"
		return out, nil
	case out.Leaves > leavesMost:
		out.Class, out.Detail = hidden, fmt.Sprintf("more than %d leaves: give the run a smaller shape by --set", leavesMost)
		return out, nil
	}
	tried, most := 0, 0
	err = p.find(r.Name, element, func(s *leafSet) bool {
		found, failed := p.ordered(r, s)
		tried++
		if failed != nil {
			p.err = cmp.Or(p.err, failed)
			return true
		}
		if many := len(s.at); most == 0 || found.Verified && (!out.Verified || many > most) {
			out.Revealed, most = found, many
			out.Leaves, out.Operand, out.By, out.Present = s.n, c.In[s.at[0].input].Name, s.curve.name, slices.Clone(s.leaf)
		}
		return out.Verified && most == out.Leaves || tried > findMost
	})
	if err != nil || p.err != nil {
		return out, cmp.Or(err, p.err)
	}
	if most == 0 {
		out.Class, out.Detail = hidden, "what the Call writes does not show it: its order changes no bit, or there is too little else that is fixed"
		return out, nil
	}
	if !r.Order.Concrete() || !r.Order.Fits(out.Leaves) || r.MMA != "" {
		return out, nil
	}
	if as := planned(r, out); as && len(out.Present) < out.Leaves { // what is left of a tree is often of no order by itself
		out.Planned, out.Class = &as, r.Order.String()
	} else {
		out.Planned = &as
	}
	return out, nil
}

// planned tells whether a tree over the leaves that were asked about is the plan's.
func planned(r reduce.Reduction, out RevealedSum) bool {
	inner := make([]reduce.Tree, out.Leaves)
	for i := range inner {
		inner[i] = reduce.Empty
	}
	for i, leaf := range out.Present {
		inner[leaf] = reduce.Tree{Leaf: i}
	}
	return reduce.Graft(r.Order.Tree(out.Leaves), inner).Equal(out.Tree)
}

// ordered asks by the plan of the run.
func (p *probe) ordered(r reduce.Reduction, s *leafSet) (reduce.Revealed, error) {
	var found reduce.Revealed
	if at, scale := p.linear(s); at != nil {
		x := make([]float32, len(s.at))
		operand := p.members[p.self].in[s.at[0].input].Format
		var err error
		found, err = reduce.RevealBox(len(s.at), func(leaves []float32) (float64, error) {
			for i, v := range leaves {
				if x[i] = v / scale; r.MMA != "" { // whose operands are of their format
					x[i] = operand.Round(x[i])
				}
			}
			p.ask(p.plan, s.base, s.at, x)
			return float64(math.Float32frombits(p.written(at)[0])), p.err
		}, r.Formats)
		if err != nil || found.Verified || len(p.members) > 1 {
			return found, err
		}
	}
	lost, err := reduce.RevealLost(len(s.at), p.view(p.plan, s).lost)
	switch {
	case found.Class != "" && !lost.Verified: // the first says more
		return found, err
	case r.MMA != "" && lost.Class == reduce.Exact.String():
		lost.Class, lost.Detail = "fused", "all of them at once: no unit is lost"
	}
	return lost, err
}

// linear is an element that the Call writes which is the sum of its leaves times a power of two, and that; nil: none is.
func (p *probe) linear(s *leafSet) (at []int, scale float32) {
	if s.curve.name != values || s.times != nil {
		return nil, 0
	}
	x := make([]float32, len(s.at))
	p.ask(p.plan, s.base, s.at, x)
	var ok []int
	none := p.written(nil)
	for i, b := range none {
		if math.Float32frombits(b) == 0 {
			ok = append(ok, i)
		}
	}
	scales := make([]float32, len(none))
	for i := range x {
		for _, v := range []float32{1, -3} {
			x[i] = v
			p.ask(p.plan, s.base, s.at, x)
			bits := p.written(ok)
			kept := ok[:0]
			for k, at := range ok {
				y := math.Float32frombits(bits[k])
				fits := y == v*scales[at]
				if i == 0 && v == 1 {
					scales[at] = y
					m, _ := math.Frexp(float64(y))
					fits = math.Abs(m) == 0.5
				}
				if fits {
					kept = append(kept, at)
				}
			}
			ok = kept
		}
		x[i] = 0
	}
	if len(ok) == 0 {
		return nil, 0
	}
	return ok[:1], scales[ok[0]]
}
