package inject

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"firstbit/device"
	"firstbit/spell"
	"firstbit/trace"
)

// kinds is the grammar: KIND@GLOB KEY=VALUE …. Each kind stands in a file of its own.
var kinds = []*kind{flipKind, orderKind, aliasKind, liveKind, rebuildKind, dropKind, setKind, copyKind, seedKind, drawKind}

// kind is what faults of a kind do, and how they are written.
type kind struct {
	Name     string
	does     string
	Example  string
	noun     string // what it acts on
	restores bool   // it acts where a run continues, and nowhere else
	begins   bool   // it also acts on what precedes the first step

	// make is the action of a fault that selects so, and the fields by which either is told. What the selector and the fields'
	// variables hold then are the defaults.
	make func(s *Selector) (action, []field)
}

// field is KEY=VALUE.
type field struct {
	key, value string // as documented
	must       bool
	take       func(value string) error
	text       func() string                 // as take reads it; empty: the default
	others     func(key, value string) error // of the last field: takes keys that no field has
}

// Kind documents one kind of fault.
type Kind struct {
	Name    string `json:"kind"`
	Syntax  string `json:"syntax"`
	Example string `json:"example"`
}

// Kinds are the faults there are.
func Kinds() (all []Kind) {
	for _, k := range kinds {
		syntax := k.Name + "@GLOB"
		_, fields := k.make(selectAll(""))
		for _, f := range fields {
			part := f.key + "=" + f.value
			if !f.must {
				part = "[" + part + "]"
			}
			syntax += " " + part
		}
		all = append(all, Kind{k.Name, syntax + ": " + k.does, k.Example})
	}
	return all
}

func selectAll(glob string) *Selector {
	return &Selector{Globs: []string{glob}, Rank: every, Micro: every, Phase: everyPhase}
}

// Parse reads KIND@GLOB KEY=VALUE ….
func Parse(s string) (*Fault, error) {
	f := &Fault{Text: s}
	words := strings.Fields(s)
	if len(words) == 0 {
		return nil, f.bad("empty: must be KIND@GLOB KEY=VALUE …")
	}
	name, glob, ok := strings.Cut(words[0], "@")
	if !ok || glob == "" {
		return nil, f.bad("must be KIND@GLOB KEY=VALUE …")
	}
	items, err := pairs(words[1:])
	if err != nil {
		return nil, f.bad("%v", err)
	}
	i := slices.IndexFunc(kinds, func(k *kind) bool { return k.Name == name })
	if i < 0 {
		return nil, f.bad("unknown kind %q: %s", name, spell.OneOf(name, names()))
	}
	f.kind, f.Selector = kinds[i], *selectAll(glob)
	f.action, f.fields = f.kind.make(&f.Selector)
	if err := take(f.fields, items); err != nil {
		return nil, f.bad("%v", err)
	}
	if x, ok := f.action.(finisher); ok {
		if err := x.finish(f); err != nil {
			return nil, f.bad("%v", err)
		}
	}
	return f, nil
}

// finisher makes something of all its fields together.
type finisher interface {
	finish(f *Fault) error
}

// String is the fault as Parse reads it: its fields in the order of the documentation, without those that are as by default.
func (f *Fault) String() string {
	words := []string{f.kind.Name + "@" + f.Globs[0]}
	for _, x := range f.fields {
		switch text := x.text(); {
		case text == "":
		case x.others != nil:
			words = append(words, text)
		default:
			words = append(words, x.key+"="+text)
		}
	}
	return strings.Join(words, " ")
}

func names() (names []string) {
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}

type pair struct{ key, value string }

// pairs cuts each KEY=VALUE, a key once.
func pairs(words []string) (items []pair, err error) {
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("%q: must be KEY=VALUE", word)
		case value == "":
			return nil, fmt.Errorf("%s: empty: must be KEY=VALUE", key)
		case slices.ContainsFunc(items, func(p pair) bool { return p.key == key }):
			return nil, fmt.Errorf("%s: given twice", key)
		}
		items = append(items, pair{key, value})
	}
	return items, nil
}

// take gives each field its value.
func take(fields []field, items []pair) error {
	var keys []string
	var others func(key, value string) error
	missing := map[string]bool{}
	for _, f := range fields {
		if f.others != nil {
			others = f.others
			continue
		}
		keys = append(keys, f.key)
		missing[f.key] = f.must
	}
	for _, p := range items {
		i := slices.Index(keys, p.key)
		if i < 0 && others == nil {
			return fmt.Errorf("unknown key %q: %s", p.key, spell.OneOf(p.key, keys))
		}
		if i < 0 {
			if err := others(p.key, p.value); err != nil {
				return err
			}
			continue
		}
		if err := fields[i].take(p.value); err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
		missing[p.key] = false
	}
	for _, key := range keys {
		if missing[key] {
			return fmt.Errorf("%s: must be given", key)
		}
	}
	return nil
}

// most bounds ranks, and microbatches of a step.
const most = 1 << 20

func (s *Selector) step() field {
	return field{key: "step", value: "SET", text: func() string { return s.Steps.String() },
		take: func(value string) (err error) { s.Steps, err = trace.ParseSet(value); return err }}
}

func (s *Selector) rank() field { return number("rank", "R", &s.Rank, most) }

func (s *Selector) micro() field { return number("micro", "M", &s.Micro, most) }

func (s *Selector) phase() field {
	usual := s.Phase
	return field{key: "phase", value: "P",
		text: func() string {
			if s.Phase == usual {
				return ""
			}
			return s.Phase.String()
		},
		take: func(value string) error {
			p, ok := device.ParsePhase(value)
			if !ok {
				return fmt.Errorf("%q: %s", value, spell.OneOf(value, device.PhaseNames()))
			}
			s.Phase = p
			return nil
		}}
}

// at tells a fault in memory after the Call from one on the kernel's write.
func (s *Selector) at() field {
	return field{key: "at", value: "rest",
		text: func() string {
			if s.Rest {
				return "rest"
			}
			return ""
		},
		take: func(value string) error {
			if s.Rest = value == "rest"; !s.Rest {
				return fmt.Errorf("%q: must be rest", value)
			}
			return nil
		}}
}

// number is a whole number from 0 on.
func number(key, value string, n *int, most int) field {
	usual := *n
	return field{key: key, value: value,
		text: func() string {
			if *n == usual {
				return ""
			}
			return strconv.Itoa(*n)
		},
		take: func(value string) error {
			v, err := strconv.Atoi(value)
			if err != nil || v < 0 || v > most {
				return fmt.Errorf("%q: must be a number from 0 to %d", value, most)
			}
			*n = v
			return nil
		}}
}

// word is any text.
func word(key, value string, s *string) field {
	return field{key: key, value: value, text: func() string { return *s }, take: func(value string) error { *s = value; return nil }}
}

// choice is one of a few words, the default's being what s holds.
func choice(key string, s *string, words ...string) field {
	usual := *s
	return field{key: key, value: strings.Join(words, "|"),
		text: func() string {
			if *s == usual {
				return ""
			}
			return *s
		},
		take: func(value string) error {
			if !slices.Contains(words, value) {
				return fmt.Errorf("%q: %s", value, spell.OneOf(value, words))
			}
			*s = value
			return nil
		}}
}

// given is a field without a default.
func given(f field) field {
	f.must = true
	return f
}
