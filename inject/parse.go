package inject

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"firstbit/device"
	"firstbit/reduce"
	"firstbit/spell"
	"firstbit/trace"
	"firstbit/tune"
)

// keys are those of every kind but order, whose others are items of a plan.
var keys = map[string][]string{
	"flip":    {"step", "rank", "micro", "phase", "out", "elem", "bit", "at"},
	"alias":   {"with", "step", "rank"},
	"live":    {"step", "rank"},
	"rebuild": {"source", "step", "rank"},
	"drop":    {"rank"},
	"set":     {"value", "elem", "rank"},
	"copy":    {"from", "rank"},
	"seed":    {"when", "rank"},
	"draw":    {"when", "rank"},
}

// Parse reads KIND@GLOB KEY=VALUE ….
func Parse(s string) (*Fault, error) {
	bad := func(format string, a ...any) (*Fault, error) {
		return nil, fmt.Errorf("--inject %q: %s", s, fmt.Sprintf(format, a...))
	}
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return bad("empty: must be KIND@GLOB KEY=VALUE …")
	}
	kind, glob, ok := strings.Cut(fields[0], "@")
	if !ok || glob == "" {
		return bad("must be KIND@GLOB KEY=VALUE …")
	}
	f := &Fault{Text: s, Kind: kind, Glob: glob, Phase: device.Fwd}
	items, err := pairs(fields[1:])
	switch {
	case err != nil:
	case kind == "order":
		err = f.parseOrder(items)
	case keys[kind] == nil:
		return bad("unknown kind %q: %s", kind, spell.OneOf(kind, kindNames()))
	default:
		err = f.parse(items)
	}
	if err != nil {
		return bad("%v", err)
	}
	return f, nil
}

func kindNames() (names []string) {
	for _, k := range Kinds {
		names = append(names, k.Name)
	}
	return names
}

type pair struct{ key, value string }

// pairs cuts each KEY=VALUE, a key once.
func pairs(fields []string) (items []pair, err error) {
	for _, field := range fields {
		key, value, ok := strings.Cut(field, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("%q: must be KEY=VALUE", field)
		case value == "":
			return nil, fmt.Errorf("%s: empty: must be KEY=VALUE", key)
		case slices.ContainsFunc(items, func(p pair) bool { return p.key == key }):
			return nil, fmt.Errorf("%s: given twice", key)
		}
		items = append(items, pair{key, value})
	}
	return items, nil
}

func (f *Fault) parse(items []pair) error {
	if f.Kind != "flip" {
		f.Rank = allRanks
	}
	if f.Restores() {
		f.Phase = device.Load
	}
	must := map[string]string{"alias": "with", "set": "value", "rebuild": "source"}[f.Kind]
	for _, p := range items {
		if !slices.Contains(keys[f.Kind], p.key) {
			return fmt.Errorf("unknown key %q: %s", p.key, spell.OneOf(p.key, keys[f.Kind]))
		}
		if err := f.take(p.key, p.value); err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
		if p.key == must {
			must = ""
		}
	}
	if must != "" {
		return fmt.Errorf("%s: must be given", must)
	}
	return nil
}

func (f *Fault) take(key, value string) (err error) {
	var ok bool
	switch key {
	case "step":
		f.Steps, err = trace.ParseSet(value)
	case "rank":
		f.Rank, err = number(value, 1<<20)
	case "micro":
		f.Micro, err = number(value, 1<<20)
	case "elem":
		f.Elem, err = number(value, math.MaxInt32)
	case "bit":
		f.Bit, err = number(value, 63)
	case "from":
		f.From, err = number(value, 1<<20)
	case "out":
		f.Out = value
	case "with":
		f.with = value
	case "at":
		if f.Rest = value == "rest"; !f.Rest {
			err = fmt.Errorf("%q: must be rest", value)
		}
	case "phase":
		if f.Phase, ok = device.ParsePhase(value); !ok {
			err = fmt.Errorf("%q: %s", value, spell.OneOf(value, device.PhaseNames()))
		}
	case "source":
		if f.source = value; value != rounded && value != dequantised {
			err = fmt.Errorf("%q: %s", value, spell.OneOf(value, []string{rounded, dequantised}))
		}
	case "when":
		if f.Early = value == "before"; !f.Early && value != "after" {
			err = fmt.Errorf("%q: %s", value, spell.OneOf(value, []string{"before", "after"}))
		}
	case "value":
		if f.Value, err = strconv.ParseFloat(value, 64); err != nil || math.IsInf(f.Value, 0) || math.IsNaN(f.Value) {
			err = fmt.Errorf("%q: must be a number", value)
		}
	}
	return err
}

func number(s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%q: must be a number from 0 to %d", s, most)
	}
	return n, nil
}

// parseOrder turns pairs into a plan: what parses as an ORDER is a reduction's.
func (f *Fault) parseOrder(items []pair) error {
	var texts []string
	for _, p := range items {
		if p.key == "step" {
			var err error
			if f.Steps, err = trace.ParseSet(p.value); err != nil {
				return fmt.Errorf("step: %w", err)
			}
			continue
		}
		order, _, _ := strings.Cut(p.value, "/")
		if _, err := reduce.ParseOrder(order); err == nil {
			texts = append(texts, p.key+":"+p.value)
		} else {
			texts = append(texts, p.key+"="+p.value)
		}
	}
	if len(texts) == 0 {
		return fmt.Errorf("names nothing to set")
	}
	plan, err := reduce.ParsePlan(strings.Join(texts, "; "))
	if err != nil {
		return err
	}
	f.policy = &tune.Policy{Glob: f.Glob, Plan: plan, Steps: f.Steps, Text: f.Text}
	return nil
}
