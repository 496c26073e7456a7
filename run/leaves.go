package run

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"firstbit/reduce"
)

// finder looks for the leaves of one sum of a Call.
type finder struct {
	*probe
	sum   string
	take  func(*leafSet) bool // tells whether nothing more is wanted
	found bool                // some were taken
	weigh bool                // elements may count otherwise
	n     int                 // leaves, of several sums of that name the most
	known []reduce.Plan       // by which the order is known: one leaf after another, shuffled, and the other way round
	rng   *rand.Rand
}

// knownOrders are those by which leaves are recognised. Another sum of the Call, whose order stays, does not answer as both.
var knownOrders = []reduce.Order{reduce.MustOrder("perm(20261201)"), reduce.MustOrder("perm(20261202)"), reduce.Seq, reduce.Reverse}

// askedMost is how many questions are spent on one sum before those for more leaves, or for any, are given up.
const askedMost = 100_000

// attempts is how many values of the other operands are tried.
const attempts = 60

// find looks for leaves of the sum that add by an order when the plan says that order, until take wants no more. Of a collective they are an
// element of every rank's message.
func (p *probe) find(sum string, element int, take func(*leafSet) bool) error {
	if len(p.members) > 1 {
		s, err := p.across(element)
		if err == nil {
			take(s)
		}
		return err
	}
	n := p.leaves()[sum]
	p.asked = 0
	f := &finder{probe: p, sum: sum, n: n, take: take, rng: rand.New(rand.NewPCG(1, uint64(n)))}
	for _, o := range knownOrders {
		known, err := p.plan.With(reduce.PlanOf(reduce.Reduction{Name: sum, Order: o, Formats: reduce.Formats{Acc: p.plan.Reduction(sum).Acc}}))
		if err != nil {
			panic("run: an order that a plan does not take: " + err.Error())
		}
		f.known = append(f.known, known)
	}
	if f.idle() || f.among() {
		return nil
	}
	for attempt := 0; attempt < attempts && !(attempt > 2 && f.found) && p.asked < askedMost; attempt++ {
		for input, given := range p.members[0].given {
			if len(given) < 2 {
				continue
			}
			if f.try(input, attempt) {
				return nil
			}
		}
	}
	return nil
}

// idleDraws is how many random operands have to show a sum's order in some bit.
const idleDraws = 8

// idle tells whether the order of the sum changes nothing that the Call writes: where a shape leaves nothing to add.
func (f *finder) idle() bool {
	for draw := range idleDraws {
		base := operands{slices.Clone(f.members[0].given)}
		for input, given := range base[0] {
			if draw%2 == 1 && given != nil {
				base[0][input] = f.random(len(given))
			}
		}
		var first []uint32
		for _, known := range f.known {
			f.ask(known, base, nil, nil)
			if bits := f.written(nil); first == nil {
				first = bits
			} else if !slices.Equal(bits, first) {
				return false
			}
		}
	}
	return true
}

// across is the leaves of a collective.
func (p *probe) across(element int) (*leafSet, error) {
	s := &leafSet{n: len(p.members), curve: curve{name: values, large: 1, unit: 0.75 * 0x1p-24}}
	for r, m := range p.members {
		s.leaf = append(s.leaf, r)
		left := element
		for input, given := range m.given {
			if left >= 0 && left < len(given) {
				s.at = append(s.at, address{r, input, left})
			}
			left -= len(given)
		}
		if len(s.at) != r+1 {
			return nil, fmt.Errorf("--element %d: must be from 0 to %d, the elements of the message", element, element-left-1)
		}
	}
	return s, nil
}

// among takes leaves of which each is an operand of its own, all of one name.
func (f *finder) among() bool {
	m := f.members[0]
	s := &leafSet{n: f.n}
	for input, given := range m.given {
		if len(given) > 0 && m.call.In[input].Name == m.call.In[0].Name {
			s.at, s.leaf = append(s.at, address{0, input, 0}), append(s.leaf, input)
		}
	}
	return len(s.at) == f.n && f.fits(s)
}

// try looks among the elements of one operand.
func (f *finder) try(input, attempt int) bool {
	f.weigh = attempt%2 == 1
	base := f.base(input, attempt/2)
	for _, support := range f.supports(input, base) {
		for _, s := range f.subsets(input, support) {
			for rest := range rests {
				if attempt > 3 {
					rest = f.rng.IntN(rests)
				}
				s.base = operands{slices.Clone(base[0])}
				s.base[0][input] = f.rest(input, rest)
				if f.fits(s) {
					return true
				}
				if attempt > 3 {
					break
				}
			}
		}
	}
	return false
}

// knownTests is how many questions of either answer recognise a sum.
const knownTests = 6

// fits takes the leaves with a curve by which they answer as the known orders say, and tells whether nothing more is wanted.
func (f *finder) fits(s *leafSet) bool {
	if len(s.at) < 3 || f.err != nil {
		return f.err != nil
	}
	these := []*leafSet{s}
	if f.weigh {
		these = f.weighted(s)
	}
	for _, s := range these {
		by := f.added(s)
		for _, c := range curves(f.probe.plan.Reduction(f.sum).Acc) {
			if s.times != nil {
				if c.name != values {
					continue
				}
				c.large *= 1.25 // so that a rounding error of a weight does not make it less than a power of two
			}
			s.curve = c
			all := true
			for k := 0; k < len(by) && all && f.err == nil; k++ {
				all = f.recognises(f.view(f.known[k], s), by[k])
			}
			if all && f.calibrated(s) {
				if f.found = true; f.take(s) {
					return true
				}
			}
			if f.err != nil {
				return true
			}
		}
	}
	return false
}

// calibrated tells whether a known order is revealed.
func (f *finder) calibrated(s *leafSet) bool {
	found, err := reduce.RevealLost(len(s.at), f.view(f.known[0], s).lost)
	return err == nil && found.Verified && found.Tree.Equal(reduce.Chain(f.added(s)[0]))
}

// added lists the leaves as each of the known orders adds them.
func (f *finder) added(s *leafSet) (by [][]int) {
	for _, o := range knownOrders {
		var these []int
		for _, leaf := range o.Tree(s.n).Leaves() {
			if i := slices.Index(s.leaf, leaf); i >= 0 {
				these = append(these, i)
			}
		}
		by = append(by, these)
	}
	return by
}

// weighted is the leaves, where elements count otherwise, weighted so that they all count the same for some element that is written.
func (f *finder) weighted(s *leafSet) (all []*leafSet) {
	x := make([]float32, len(s.at))
	var of [][]float32 // what is written with one leaf
	for i := range x {
		clear(x)
		x[i] = 1
		var y []float32
		f.ask(f.probe.plan, s.base, s.at, x)
		for _, b := range f.written(nil) {
			y = append(y, math.Float32frombits(b))
		}
		of = append(of, y)
	}
	for _, at := range []int{len(of[0]) - 1, 0, f.rng.IntN(len(of[0])), f.rng.IntN(len(of[0]))} {
		w := &leafSet{n: s.n, base: s.base}
		same := true
		for i := range of {
			if y := of[i][at]; y != 0 && y-y == 0 {
				w.at, w.leaf, w.times = append(w.at, s.at[i]), append(w.leaf, s.leaf[i]), append(w.times, 1/y)
				same = same && w.times[0] == 1/y
			}
		}
		if len(w.at) >= 3 && (!same || len(w.at) < len(s.at)) {
			all = append(all, w)
		}
	}
	return all
}

// recognises asks two kinds of question: of two units that are added before the large value, which show, and of such that are not.
func (f *finder) recognises(v *view, by []int) bool {
	last := len(by) - 1
	for range knownTests {
		i := last
		if last > 3 {
			i = last - f.rng.IntN(2)
		}
		j := f.rng.IntN(i)
		k := (j + 1 + f.rng.IntN(i-1)) % i
		if lost, err := v.lost(by[i], []int{by[j], by[k]}); lost || err != nil {
			return false
		}
		i = f.rng.IntN(last)
		j = i + 1 + f.rng.IntN(last-i)
		for k = f.rng.IntN(last + 1); k == i || k == j; {
			k = f.rng.IntN(last + 1)
		}
		if lost, err := v.lost(by[i], []int{by[j], by[k]}); !lost || err != nil {
			return false
		}
	}
	return true
}
