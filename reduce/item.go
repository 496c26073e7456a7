package reduce

import (
	"slices"
	"strconv"
	"strings"
)

// Class is what two runs do differently if their plans differ in an item. Of several items the largest counts.
type Class uint8

// The classes.
const (
	Tuner    Class = iota // an order, a format, or any choice of a tuner
	Topology              // where the ranks stand, the machine, or what else there is
	Tie                   // how exact ties are broken
)

// String is the name in reports.
func (c Class) String() string { return [...]string{"tuner", "topology", "tie"}[c] }

// item is what a plan may choose besides orders of sums.
type item struct {
	name  string
	words []string // all that any kernel knows; nil: a number of at least 1
	class Class
	where string // the class holds where the plan also has this; empty: wherever
	races string // the word by which the bits depend on arrival; empty: none does
}

// items are the choices of all kernels. A kernel's plan says which of the words it knows.
var items = []item{
	{name: "by", words: []string{"position", "sequence", "head", "segment", "token", "place"}}, // what is added first, or a draw is keyed by
	{name: "channels"},
	{name: "chunk"},
	{name: "coeff", words: []string{"sum", "token"}}, // what a coefficient multiplies
	{name: "communicators", class: Topology},
	{name: "cut", words: []string{"present", "all"}},                                   // what a sum over rows is cut by
	{name: "fused", words: []string{"false", "true"}, class: Tie, where: "tie=native"}, // which kernel runs: each breaks ties its own way
	{name: "grid"},
	{name: "max", words: []string{"row", "tile"}},         // over what the largest exponent is taken
	{name: "over", words: []string{"sequence", "tensor"}}, // what an amax is of
	{name: "ring", class: Topology},
	{name: "rule", words: []string{"up", "floor"}},     // of scales
	{name: "scale", words: []string{"power", "exact"}}, // of two
	{name: "sched", words: []string{"static", "dynamic", "each"}, races: "dynamic"},
	{name: "slots", words: []string{"value", "index"}},
	{name: "sort", words: []string{"false", "true"}},
	{name: "tie", words: []string{"native", "low"}, class: Tie},
	{name: "tuned", words: []string{"false", "true"}},
	{name: "within", words: []string{"sequence", "segment"}}, // what a chunk does not cross
}

// other is an item of a trace's plan that no kernel here has.
var other item

func itemOf(name string) *item {
	if i := slices.IndexFunc(items, func(t item) bool { return t.name == name }); i >= 0 {
		return &items[i]
	}
	return &other
}

// lists tells whether a kernel may list these words for the item.
func (t *item) lists(words []string) bool {
	if t.words == nil {
		_, err := strconv.Atoi(words[0])
		return t != &other && err == nil && len(words) == 1
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(t.words, w) })
}

// classIn is the class of a difference in the item between plans, one of which is p.
func (t *item) classIn(p Plan) Class {
	if t.where == "" {
		return t.class
	}
	name, value, _ := strings.Cut(t.where, "=")
	if c := p.choice(name); c == nil || c.Value != value {
		return Tuner
	}
	return t.class
}

// Difference is the class of what two plans do not have in common. Of an item that only one of them has, it is Tuner.
//
// Sums on tensor cores of two architectures are Topology: it is the machine that differs.
func Difference(p, q Plan) (largest Class) {
	for _, r := range p.Reductions() {
		for _, s := range q.Reductions() {
			if r.Name == s.Name && r.MMA != "" && s.MMA != "" && r.MMA != s.MMA {
				largest = Topology
			}
		}
	}
	for _, c := range p.Choices() {
		if d := q.choice(c.Name); d != nil && d.Value != c.Value {
			largest = max(largest, c.item.classIn(p))
		}
	}
	return largest
}
