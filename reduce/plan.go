package reduce

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"firstbit/lowp"
)

// Reduction is one named sum inside a kernel.
type Reduction struct {
	Name  string
	Order Order
	Acc   lowp.Format // format of partial sums
	FMA   bool        // products are fused into the sum
}

func (r Reduction) String() string {
	s := r.Name + ":" + r.Order.String() + "/" + r.Acc.String()
	if r.FMA {
		s += "/fma"
	}
	return s
}

// Choice is one named decision that is not a sum.
type Choice struct{ Name, Value string }

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

var errItem = errors.New("must be name:ORDER[/format][/fma] or name=value")

// ParsePlan reads "k:blocked(64)/fp32; tiles:arrival; chunk=64; tie=low". The accumulate
// format is fp32 unless given; "k:seq/fp32/fma" fuses products. Names are letters, digits, _, - and dots.
func ParsePlan(s string) (Plan, error) {
	var p plan
	items := strings.SplitN(s, ";", maxItems+1)
	if len(items) > maxItems {
		return Plan{}, fmt.Errorf("plan: more than %d items", maxItems)
	}
	for _, item := range items {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if err := p.parseItem(item); err != nil {
			return Plan{}, fmt.Errorf("plan item %.80q: %w", item, err)
		}
	}
	return p.plan(), nil
}

func (p *plan) parseItem(item string) error {
	i := strings.IndexAny(item, ":=")
	if i < 0 {
		return errItem
	}
	name, value := strings.TrimSpace(item[:i]), strings.TrimSpace(item[i+1:])
	if name == "" || strings.ContainsFunc(name, notInName) {
		return errItem
	}
	if p.has(name) {
		return fmt.Errorf("%s is given twice", name)
	}
	if item[i] == ':' {
		r, err := parseReduction(name, value)
		p.reductions = append(p.reductions, r)
		return err
	}
	if value == "" || strings.ContainsFunc(value, notInValue) {
		return errItem
	}
	p.choices = append(p.choices, Choice{name, value})
	return nil
}

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.'
}

func notInValue(c rune) bool { return c <= ' ' || c > '~' || c == ':' || c == '=' }

func parseReduction(name, s string) (Reduction, error) {
	parts := strings.Split(s, "/")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	r := Reduction{Name: name}
	var err error
	if r.Order, err = ParseOrder(parts[0]); err != nil {
		return r, err
	}
	if len(parts) > 1 {
		if r.Acc, err = lowp.Parse(parts[1]); err != nil {
			return r, err
		}
		if !r.Acc.Float() || r.Acc == lowp.FP64 {
			return r, fmt.Errorf("accumulate format %s: must be fp32, bf16 or fp16", r.Acc)
		}
	}
	if len(parts) > 2 {
		if parts[2] != "fma" || len(parts) > 3 {
			return r, fmt.Errorf("%q: only /fma may follow the format", strings.Join(parts[2:], "/"))
		}
		r.FMA = true
	}
	return r, nil
}

// MustPlan is ParsePlan for constants.
func MustPlan(s string) Plan {
	p, err := ParsePlan(s)
	if err != nil {
		panic("reduce: a constant plan does not parse: " + err.Error())
	}
	return p
}

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
	if p.p != nil {
		for i := range p.p.choices {
			if p.p.choices[i].Name == name {
				return p.p.choices[i].Value
			}
		}
	}
	panic("reduce: the plan has no such choice")
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
		if !r.Order.Concrete() {
			return true
		}
	}
	for _, c := range p.p.choices {
		if c.Value == "dynamic" {
			return true
		}
	}
	return false
}

// Reductions lists the named sums.
func (p Plan) Reductions() []Reduction {
	if p.p == nil {
		return nil
	}
	return slices.Clone(p.p.reductions)
}

// With puts the items of q over those of p. An item p does not have, of another
// sort, or with a word where p has a number is an error.
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
		if _, err := strconv.Atoi(out.choices[i].Value); err == nil {
			if n, err := strconv.Atoi(c.Value); err != nil || n < 1 || n > maxLeaves {
				return Plan{}, fmt.Errorf("plan choice %s=%s: must be a number from 1 to %d", c.Name, c.Value, maxLeaves)
			}
		}
		out.choices[i] = c
	}
	return out.plan(), nil
}

func (p Plan) unknown(name, sort string) error {
	has := p.String()
	if has == "" {
		has = "nothing to choose"
	}
	return fmt.Errorf("plan has no %s %q: this kernel's plan is %s", sort, name, has)
}
