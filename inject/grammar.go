package inject

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/device"
	"firstbit/spell"
	"firstbit/tune"
)

// kinds is the grammar: KIND@GLOB KEY=VALUE …. Each kind stands in a file of its own.
var kinds = []*kind{flipKind, setKind, orderKind, dropKind, unwrittenKind, repeatKind, earlyKind, lateKind, aliasKind, copyKind, seedKind, drawKind, liveKind, rebuildKind, libraryKind, autotuneKind, captureKind, probeKind, swapKind, castKind}

// kind is what faults of a kind do, and how they are written.
type kind struct {
	Name    string
	does    string
	Example string
	noun    string       // what it acts on
	state   string       // what it acts on in a restore, if it acts there unless a step, a microbatch or a phase is given; empty: it does not
	phase   device.Phase // the phases, if none is given: EveryPhase or StepPhases of package tune
	begins  bool         // it also acts on what precedes the first step

	// make is the action of a fault that selects so, and its own fields. What the selector and the fields' variables hold then are
	// the defaults.
	make func(s *Selector) (action, []field)
}

// field is KEY=VALUE.
type field struct {
	tune.Key
	must   bool
	also   string                        // another name for the key; empty: none
	others func(key, value string) error // of the last field: takes keys that no field has
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
		_, fields := k.make(k.selector(""))
		for _, f := range fields {
			part := f.Name + "=" + f.Value
			if !f.must {
				part = "[" + part + "]"
			}
			syntax += " " + part
		}
		all = append(all, Kind{k.Name, syntax + ": " + k.does, k.Example})
	}
	return all
}

// Where documents the keys that faults of all kinds have.
func Where() string {
	var words []string
	for _, f := range (&Selector{}).fields() {
		words = append(words, "["+f.Name+"="+f.Value+"]")
	}
	return "KIND@GLOB " + strings.Join(words, " ") + " …: where a fault of any kind acts: everywhere in the steps where nothing is given; on initialisation and restores with phase=init and phase=load"
}

func (k *kind) selector(glob string) *Selector {
	return &Selector{Globs: []string{glob}, Where: tune.Everywhere(k.phase)}
}

// fields are the words of the selector.
func (s *Selector) fields() (all []field) {
	for _, k := range s.Keys() {
		all = append(all, field{Key: k})
	}
	return all
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
	f.kind = kinds[i]
	f.Selector = *f.kind.selector(glob)
	var own []field
	f.action, own = f.kind.make(&f.Selector)
	f.fields = append(f.Selector.fields(), own...)
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
		switch text := x.Text(); {
		case text == "":
		case x.others != nil:
			words = append(words, text)
		default:
			words = append(words, x.Name+"="+text)
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
		case !ok || key == "":
			return nil, fmt.Errorf("%q: must be KEY=VALUE", word)
		case value == "":
			return nil, fmt.Errorf("%s: empty: must be KEY=VALUE", key)
		case slices.ContainsFunc(items, func(p pair) bool { return p.key == key && isOrder(p.value) == isOrder(value) }):
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
	missing, taken := map[string]bool{}, map[string]bool{}
	for _, f := range fields {
		if f.others != nil {
			others = f.others
			continue
		}
		keys = append(keys, f.Name)
		missing[f.Name] = f.must
	}
	for _, p := range items {
		i := slices.IndexFunc(fields, func(f field) bool { return f.others == nil && (f.Name == p.key || f.also == p.key) })
		if others != nil && isOrder(p.value) { // of a reduction, which may be called micro
			i = -1
		}
		if i < 0 && others == nil {
			return fmt.Errorf("unknown key %q: %s", p.key, spell.OneOf(p.key, keys))
		}
		if i < 0 {
			if err := others(p.key, p.value); err != nil {
				return err
			}
			continue
		}
		if name := fields[i].Name; taken[name] {
			return fmt.Errorf("%s: given twice", name)
		}
		if err := fields[i].Take(p.value); err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
		missing[fields[i].Name], taken[fields[i].Name] = false, true
	}
	for _, key := range keys {
		if missing[key] {
			return fmt.Errorf("%s: must be given", key)
		}
	}
	return nil
}

// at tells a fault in memory after the Call from one on the kernel's write.
func (s *Selector) at() field {
	return field{Key: tune.Key{Name: "at", Value: "rest",
		Text: func() string {
			if s.Rest {
				return "rest"
			}
			return ""
		},
		Take: func(value string) error {
			if s.Rest = value == "rest"; !s.Rest {
				return fmt.Errorf("%q: must be rest", value)
			}
			return nil
		}}}
}

// number is a whole number from least to most.
func number(key, value string, n *int, least, most int) field {
	return field{Key: tune.Number(key, value, n, least, most)}
}

// word is any text.
func word(key, value string, s *string) field {
	return field{Key: tune.Key{Name: key, Value: value, Text: func() string { return *s }, Take: func(value string) error { *s = value; return nil }}}
}

// choice is one of a few words, the default's being what s holds.
func choice(key string, s *string, words ...string) field {
	usual := *s
	return field{Key: tune.Key{Name: key, Value: strings.Join(words, "|"),
		Text: func() string {
			if *s == usual {
				return ""
			}
			return *s
		},
		Take: func(value string) error {
			if !slices.Contains(words, value) {
				return fmt.Errorf("%q: %s", value, spell.OneOf(value, words))
			}
			*s = value
			return nil
		}}}
}

// given is a field without a default.
func given(f field) field {
	f.must = true
	return f
}
