package reduce

import (
	"errors"
	"fmt"
	"strings"

	"firstbit/lowp"
)

// ParsePlan reads "k:blocked(64)/fp32; tiles:arrival; chunk=64; tie=low". The accumulate
// format is fp32 unless given; "k:splitk(4)/fp32~bf16" stores the sums of parts in bf16, "ranks:ring/fp32@bf16" sends partial sums in bf16
// (see Formats); "k:seq/fp32/fma" fuses products. "k:splitk(4)/mma(hopper)" adds products up as that architecture's tensor cores
// do, "k:seq/mma(hopper,fp16)" with an accumulator of fp16; "k:mma(hopper)" is short for one chain, k:seq/mma(hopper). Names are letters, digits, _, - and dots.
func ParsePlan(s string) (Plan, error) { return parsePlan(s, false) }

// parsePlan reads a plan; one of a kernel may list the words of a choice.
func parsePlan(s string, ofKernel bool) (Plan, error) {
	var p plan
	items := strings.SplitN(s, ";", maxItems+1)
	if len(items) > maxItems {
		return Plan{}, fmt.Errorf("plan: more than %d items", maxItems)
	}
	for _, item := range items {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if err := p.parseItem(item, ofKernel); err != nil {
			return Plan{}, fmt.Errorf("plan item %.80q: %w", item, err)
		}
	}
	return p.plan(), nil
}

func (p *plan) parseItem(item string, ofKernel bool) error {
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
	words := []string{value}
	if ofKernel {
		words = strings.Split(value, "|")
	}
	for _, w := range words {
		if w == "" || strings.ContainsFunc(w, notInValue) {
			return errItem
		}
	}
	of := itemOf(name)
	if ofKernel && !of.lists(words) {
		return errors.New("is no choice of the table in item.go, or lists other words")
	}
	p.choices = append(p.choices, Choice{name, words[0], words, of})
	return nil
}

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.'
}

func notInValue(c rune) bool { return c <= ' ' || c > '~' || c == ':' || c == '=' || c == '|' }

func parseReduction(name, s string) (Reduction, error) {
	parts := strings.Split(s, "/")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	r := Reduction{Name: name}
	var err error
	if isMMA(parts[0]) {
		parts = append([]string{kindNames[seq]}, parts...)
	}
	if r.Order, err = ParseOrder(parts[0]); err != nil {
		return r, err
	}
	if len(parts) > 1 && isMMA(parts[1]) {
		if len(parts) > 2 {
			return r, fmt.Errorf("%q: nothing may follow mma(%s)", strings.Join(parts[2:], "/"), mmaArgs(parts[1]))
		}
		return r, r.parseMMA(mmaArgs(parts[1]))
	}
	if len(parts) > 1 {
		if r.Formats, err = parseFormats(parts[1]); err != nil {
			return r, err
		}
		if r.Acc == lowp.FP64 && (name != "ranks" || !r.uniform()) {
			return r, errors.New("accumulate format fp64: must be fp32, bf16 or fp16; only a sum over ranks, which has the name ranks, may be wider than what it adds, and neither stores nor sends")
		}
		if r.Wire != lowp.FP32 && name != "ranks" {
			return r, fmt.Errorf("@%s: only a sum over ranks is sent, which has the name ranks", r.Wire)
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

// MustPlan is ParsePlan for constants. A kernel's lists what its choices may be, of the words of the table in item.go, first what they are
// unless told otherwise: "sched=static|dynamic". A word without others is the only one; a number may be any.
func MustPlan(s string) Plan {
	p, err := parsePlan(s, true)
	if err != nil {
		panic("reduce: a constant plan does not parse: " + err.Error())
	}
	return p
}

func isMMA(s string) bool { return strings.HasPrefix(s, "mma(") && strings.HasSuffix(s, ")") }

func mmaArgs(s string) string { return strings.TrimSuffix(strings.TrimPrefix(s, "mma("), ")") }

// parseMMA reads an architecture, and the format of its accumulator if that is not fp32.
func (r *Reduction) parseMMA(args string) (err error) {
	arch, out, hasOut := strings.Cut(args, ",")
	if err = lowp.CheckArch(arch); err != nil {
		return err
	}
	r.MMA = arch
	if !hasOut {
		return nil
	}
	if r.Acc, err = lowp.Parse(out); err == nil && r.Acc != lowp.FP16 && r.Acc != lowp.FP32 {
		err = fmt.Errorf("accumulator %s: must be fp32 or fp16", r.Acc)
	}
	return err
}
