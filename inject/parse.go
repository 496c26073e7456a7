package inject

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"firstbit/device"
	"firstbit/reduce"
	"firstbit/spell"
	"firstbit/trace"
	"firstbit/tune"
)

// Parse reads KIND@GLOB key=value ….
func Parse(s string) (*Fault, error) {
	bad := func(format string, a ...any) (*Fault, error) {
		return nil, fmt.Errorf("--inject %q: %s", s, fmt.Sprintf(format, a...))
	}
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return bad("empty: must be KIND@GLOB key=value …")
	}
	kind, glob, ok := strings.Cut(fields[0], "@")
	if !ok || glob == "" {
		return bad("must be KIND@GLOB key=value …")
	}
	f := &Fault{Text: s, Kind: kind, Glob: glob, Phase: device.Fwd}
	var err error
	switch kind {
	case "flip":
		err = f.parseFlip(fields[1:])
	case "order":
		err = f.parseOrder(fields[1:])
	case "alias":
		err = f.parseAlias(fields[1:])
	case "drop", "set", "copy", "seed", "draw":
		err = f.parseRestore(fields[1:])
	default:
		return bad("unknown kind %q: %s", kind, spell.OneOf(kind, kindNames()))
	}
	if err != nil {
		return bad("%v", err)
	}
	return f, nil
}

func (f *Fault) parseFlip(pairs []string) error {
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q: must be key=value", pair)
		}
		var err error
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
		case "out":
			f.Out = value
		case "at":
			if f.Rest = value == "rest"; !f.Rest {
				err = fmt.Errorf("%q: must be rest", value)
			}
		case "phase":
			if f.Phase, ok = device.ParsePhase(value); !ok {
				err = fmt.Errorf("%q: %s", value, spell.OneOf(value, device.PhaseNames()))
			}
		default:
			return unknownKey(key, "step", "rank", "micro", "phase", "out", "elem", "bit", "at")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func unknownKey(key string, keys ...string) error {
	return fmt.Errorf("unknown key %q: %s", key, spell.OneOf(key, keys))
}

func kindNames() (names []string) {
	for _, k := range Kinds {
		names = append(names, k.Name)
	}
	return names
}

func number(s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%q: must be a number from 0 to %d", s, most)
	}
	return n, nil
}

// parseOrder turns NAME=VALUE pairs into a plan: what parses as an ORDER is a reduction's.
func (f *Fault) parseOrder(pairs []string) error {
	var items []string
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q: must be NAME=VALUE", pair)
		}
		if name == "step" {
			var err error
			if f.Steps, err = trace.ParseSet(value); err != nil {
				return fmt.Errorf("step: %w", err)
			}
			continue
		}
		order, _, _ := strings.Cut(value, "/")
		if _, err := reduce.ParseOrder(order); err == nil {
			items = append(items, name+":"+value)
		} else {
			items = append(items, name+"="+value)
		}
	}
	if len(items) == 0 {
		return fmt.Errorf("names nothing to set")
	}
	plan, err := reduce.ParsePlan(strings.Join(items, "; "))
	if err != nil {
		return err
	}
	f.policy = &tune.Policy{Glob: f.Glob, Plan: plan, Steps: f.Steps, Text: f.Text}
	return nil
}
