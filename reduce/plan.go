package reduce

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"firstbit/lowp"
	"firstbit/spell"
)

// Reduction is one named sum inside a kernel.
type Reduction struct {
	Name  string
	Order Order
	Formats
	FMA bool   // products are fused into the sum
	MMA string // the architecture whose tensor cores add chains of products up, see lowp.MMA; empty: none does
}

// String is the reduction as a plan writes it.
func (r Reduction) String() string {
	s := r.Name + ":" + r.Order.String() + "/"
	switch {
	case r.MMA != "" && r.Acc != lowp.FP32:
		return s + "mma(" + r.MMA + "," + r.Acc.String() + ")"
	case r.MMA != "":
		return s + "mma(" + r.MMA + ")"
	}
	s += r.Formats.String()
	if r.FMA {
		s += "/fma"
	}
	return s
}

// Choice is one named decision that is not a sum: a number of at least 1, or one of a few words.
type Choice struct {
	Name, Value string
	words       []string // all that a word may be
	item        *item
}

// Varies tells whether the bits depend on arrival through the choice.
func (c Choice) Varies() bool { return c.item.races != "" && c.Value == c.item.races }

// takes tells what is wrong with another value for the choice.
func (c Choice) takes(value string) error {
	if _, err := strconv.Atoi(c.Value); err == nil {
		if n, err := strconv.Atoi(value); err != nil || n < 1 || n > maxLeaves || strconv.Itoa(n) != value {
			return fmt.Errorf("plan choice %s=%s: must be a number from 1 to %d", c.Name, value, maxLeaves)
		}
		return nil
	}
	if !slices.Contains(c.words, value) {
		return fmt.Errorf("plan choice %s=%s: %smust be %s", c.Name, value, spell.Meant(value, c.words), strings.Join(c.words, " or "))
	}
	return nil
}

// Plan is all that a kernel's bits depend on besides its inputs. It is immutable;
// the zero value is the plan without choices.
type Plan struct{ p *plan }

type plan struct {
	reductions []Reduction
	choices    []Choice
	text       string
}

// maxItems is more than any kernel has to choose.
const maxItems = 64

var errItem = errors.New("must be name:ORDER[/format[~stored][@sent]][/fma], name:ORDER/mma(architecture) or name=value")

func (p plan) plan() Plan {
	if len(p.reductions)+len(p.choices) == 0 {
		return Plan{}
	}
	items := make([]string, 0, len(p.reductions)+len(p.choices))
	for _, r := range p.reductions {
		items = append(items, r.String())
	}
	for _, c := range p.choices {
		items = append(items, c.Name+"="+c.Value)
	}
	p.text = strings.Join(items, "; ")
	return Plan{&p}
}

func (p *plan) has(name string) bool {
	for i := range p.reductions {
		if p.reductions[i].Name == name {
			return true
		}
	}
	for i := range p.choices {
		if p.choices[i].Name == name {
			return true
		}
	}
	return false
}

// String is the canonical text: ParsePlan reads it back.
func (p Plan) String() string {
	if p.p == nil {
		return ""
	}
	return p.p.text
}

// PlanOf is the plan of these reductions.
func PlanOf(reductions ...Reduction) Plan { return plan{reductions: slices.Clone(reductions)}.plan() }

// Equal tells whether two plans say the same.
func (p Plan) Equal(q Plan) bool { return p.p == q.p || p.String() == q.String() }

// Empty tells whether the plan leaves nothing to choose.
func (p Plan) Empty() bool { return p.p == nil }

// Reduction is the reduction of that name.
func (p Plan) Reduction(name string) Reduction {
	if p.p != nil {
		for i := range p.p.reductions {
			if p.p.reductions[i].Name == name {
				return p.p.reductions[i]
			}
		}
	}
	panic("reduce: the plan has no such reduction")
}

// Order is the order of the reduction of that name.
func (p Plan) Order(name string) Order { return p.Reduction(name).Order }

// Choice is the value of the choice of that name.
func (p Plan) Choice(name string) string {
	c := p.choice(name)
	if c == nil {
		panic("reduce: the plan has no such choice")
	}
	return c.Value
}

func (p Plan) choice(name string) *Choice {
	if p.p != nil {
		for i := range p.p.choices {
			if p.p.choices[i].Name == name {
				return &p.p.choices[i]
			}
		}
	}
	return nil
}

// Int is a choice that is a number of at least 1.
func (p Plan) Int(name string) int {
	n, err := strconv.Atoi(p.Choice(name))
	if err != nil || n < 1 {
		panic("reduce: the choice is not a positive number")
	}
	return n
}

// Has tells whether the plan has a reduction or choice of that name.
func (p Plan) Has(name string) bool { return p.p != nil && p.p.has(name) }

// Names lists reductions and choices as they are written.
func (p Plan) Names() []string {
	var names []string
	if p.p != nil {
		for _, r := range p.p.reductions {
			names = append(names, r.Name)
		}
		for _, c := range p.p.choices {
			names = append(names, c.Name)
		}
	}
	return names
}

// Varies tells whether the bits depend on arrival: through an order, or a dynamic scheduler.
func (p Plan) Varies() bool {
	if p.p == nil {
		return false
	}
	for _, r := range p.p.reductions {
		if r.Order.Arrives() {
			return true
		}
	}
	return slices.ContainsFunc(p.p.choices, Choice.Varies)
}

// VariesBy tells whether the bits depend on arrival through the item of a name.
func (p Plan) VariesBy(name string) bool {
	if p.p == nil {
		return false
	}
	return slices.ContainsFunc(p.p.reductions, func(r Reduction) bool { return r.Name == name && r.Order.Arrives() }) ||
		slices.ContainsFunc(p.p.choices, func(c Choice) bool { return c.Name == name && c.Varies() })
}

// Reductions lists the named sums.
func (p Plan) Reductions() []Reduction {
	if p.p == nil {
		return nil
	}
	return slices.Clone(p.p.reductions)
}

// Choices lists the named decisions that are not sums.
func (p Plan) Choices() []Choice {
	if p.p == nil {
		return nil
	}
	return slices.Clone(p.p.choices)
}

// With puts the items of q over those of p. An item p does not have, of another sort, or a value
// that p's choice cannot have is an error.
func (p Plan) With(q Plan) (Plan, error) {
	if q.p == nil {
		return p, nil
	}
	var out plan
	if p.p != nil {
		out.reductions = append(out.reductions, p.p.reductions...)
		out.choices = append(out.choices, p.p.choices...)
	}
	for _, r := range q.p.reductions {
		i := 0
		for i < len(out.reductions) && out.reductions[i].Name != r.Name {
			i++
		}
		if i == len(out.reductions) {
			return Plan{}, p.unknown(r.Name, "reduction")
		}
		out.reductions[i] = r
	}
	for _, c := range q.p.choices {
		i := 0
		for i < len(out.choices) && out.choices[i].Name != c.Name {
			i++
		}
		if i == len(out.choices) {
			if p.Has(c.Name) {
				return Plan{}, fmt.Errorf("plan item %s=%s: is a reduction: must be an order: allowed are %s", c.Name, c.Value, Allowed)
			}
			return Plan{}, p.unknown(c.Name, "choice")
		}
		if err := out.choices[i].takes(c.Value); err != nil {
			return Plan{}, err
		}
		out.choices[i].Value = c.Value
	}
	return out.plan(), nil
}

// Among is the plan of those items whose names q has too.
func (p Plan) Among(q Plan) Plan {
	var out plan
	for _, r := range p.Reductions() {
		if q.Has(r.Name) {
			out.reductions = append(out.reductions, r)
		}
	}
	for _, c := range p.Choices() {
		if q.Has(c.Name) {
			out.choices = append(out.choices, c)
		}
	}
	return out.plan()
}

func (p Plan) unknown(name, sort string) error {
	has := p.String()
	if has == "" {
		has = "nothing to choose"
	}
	return fmt.Errorf("plan has no %s %q: %sthis kernel's plan is %s", sort, name, spell.Meant(name, p.Names()), has)
}
