//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// inputAttack gives a run of a step configurations, corpora and faults that nobody meant. It runs, or is refused in a line.
type inputAttack struct {
	config []byte
	names  []string // of Calls
	saved  string   // a checkpoint
	states []string // in it
}

func inputs() attack {
	x := &inputAttack{}
	return attack{name: "inputs", full: 600, short: 30, prepare: x.prepare, try: x.try}
}

func (x *inputAttack) prepare(a *arena) error {
	t := &trial{arena: a, dir: filepath.Join(a.dir, "inputs")}
	o, err := t.succeed(append([]string{"train", "--preset", "pico", "--steps", "1", "--json", "--trace", t.in("trace")}, layout...)...)
	if err != nil {
		return err
	}
	var printed struct {
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &printed); err != nil {
		return err
	}
	x.config = printed.Config
	f, err := openForger(t.in("trace"))
	if err != nil {
		return err
	}
	for _, lines := range f.files {
		for _, line := range lines {
			v, err := parse([]byte(line))
			if err != nil {
				return err
			}
			name := v.get("name").text()
			if scope := v.get("scope").text(); scope != "" && !strings.HasPrefix(name, scope) {
				name = scope + "." + name
			}
			x.names = append(x.names, name)
		}
	}
	return x.save(t)
}

// layout has messages, experts elsewhere, and microbatches.
var layout = []string{"--layout", "dp=2,ep=2", "--set", "micro=2", "--set", "model.dropout=0.1"}

// save makes the checkpoint that runs with faults continue.
func (x *inputAttack) save(t *trial) error {
	x.saved = t.in("ck")
	if _, err := t.succeed(append([]string{"train", "--preset", "pico", "--steps", "1", "--save", x.saved}, layout...)...); err != nil {
		return err
	}
	f, err := openForgery(filepath.Join(x.saved, stepName(1)))
	if err != nil {
		return err
	}
	for _, e := range f.manifest.get("files").items[0].get("tensors").items {
		x.states = append(x.states, e.get("name").text())
	}
	return nil
}

// inject is the flags of a run with a fault.
func (x *inputAttack) inject(t *trial) []string {
	resumed := t.rand.IntN(2) == 0
	t.kind, t.what = "--inject", x.fault(t.rand, resumed)
	flags := append(layout[:len(layout):len(layout)], "--inject", t.what)
	if resumed {
		t.kind = "--inject into a restore"
		flags = append(flags, "--steps", "2", "--resume", x.saved)
	}
	return flags
}

func (x *inputAttack) try(t *trial) error {
	args := []string{"train", "--preset", "pico", "--steps", "1"}
	var err error
	switch t.rand.IntN(4) {
	case 0:
		err = x.mutated(t)
		args = append(args, "--config", t.in("config.json"))
	case 1:
		err = os.WriteFile(t.in("config.json"), x.config, 0o666)
		if err == nil {
			t.kind, err = damageFile(t.rand, t.in("config.json"))
			t.kind = "--config: " + t.kind
		}
		args = append(args, "--config", t.in("config.json"))
	case 2:
		name := ""
		name, err = x.corpus(t)
		args = append(args, "--data", name)
	default:
		args = append(args, x.inject(t)...)
	}
	if err != nil {
		return err
	}
	o, err := t.run(args...)
	if err != nil {
		return err
	}
	if why := o.broken(); why != "" {
		return t.failed(o, "%s", why)
	}
	if why := o.unclear(); o.code != 0 && why != "" {
		return t.failed(o, "answered by %s: %s", o.status(), why)
	}
	return nil
}

func (x *inputAttack) mutated(t *trial) error {
	v, err := parse(x.config)
	if err != nil {
		return err
	}
	t.kind = "--config: mutated"
	for range 1 + t.rand.IntN(2) {
		t.what += mutate(t.rand, &v) + "; "
	}
	return os.WriteFile(t.in("config.json"), []byte(v.String()), 0o666)
}

// corpus writes a text, or a token file with its index, and damages it.
func (x *inputAttack) corpus(t *trial) (name string, err error) {
	name = t.in("corpus.txt")
	damaged := name
	text := []byte(strings.Repeat("the quick brown fox\n", 40))
	if t.rand.IntN(2) == 0 {
		name, damaged = t.in("corpus.bin"), t.in(pick(t.rand, []string{"corpus.bin", "corpus.idx"}))
		index := "MMIDIDX\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" + "\x08" + "\x01\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" +
			"\x90\x01\x00\x00" + strings.Repeat("\x00", 8) + strings.Repeat("\x00", 8) + "\x01" + strings.Repeat("\x00", 7) // a sequence of 400 tokens, two documents
		if err := os.WriteFile(t.in("corpus.idx"), []byte(index), 0o666); err != nil {
			return name, err
		}
		for i := range text { // a token of two bytes
			text[i] *= byte((i + 1) % 2)
		}
	}
	if err := os.WriteFile(name, text, 0o666); err != nil {
		return name, err
	}
	kind, err := damageFile(t.rand, damaged)
	t.kind, t.what = "--data: "+kind, filepath.Base(damaged)
	return name, err
}

// faultKeys are the keys of each kind of fault.
var faultKeys = map[string][]string{
	"flip": {"step", "rank", "micro", "phase", "out", "elem", "bit", "at"}, "order": {"step", "tiles", "sched", "k", "tokens", "ranks"}, "alias": {"with", "step", "rank"}, "live": {"step", "rank"}, "rebuild": {"source", "step", "rank"},
	"drop": {"rank"}, "set": {"value", "elem", "rank"}, "copy": {"from", "rank"}, "seed": {"when", "rank"}, "draw": {"when", "rank"},
}

// faultValues are values of a key that mean something; others are numbers.
var faultValues = map[string][]string{
	"phase": {"init", "fwd", "bwd", "opt", "load"}, "at": {"rest"}, "source": {"bf16", "dequantised"}, "when": {"before", "after"}, "sched": {"dynamic", "static", "each"},
	"tiles": {"reverse", "arrival", "perm(3)", "given(1 0)"}, "k": {"reverse", "lanes(4)", "splitk(1000)"}, "tokens": {"arrival", "blocked(9)"}, "ranks": {"reverse", "ring(2)"},
}

// fault is a fault of a kind, some of whose numbers nobody meant. A run that continues has those of restores.
func (x *inputAttack) fault(r *rand.Rand, resumed bool) string {
	kind, names := pick(r, []string{"flip", "flip", "order", "alias", "live", "rebuild"}), x.names
	if resumed {
		kind, names = pick(r, []string{"drop", "set", "set", "copy", "seed", "draw"}), x.states
	}
	glob := func() string {
		name := pick(r, names)
		switch r.IntN(6) {
		case 0:
			return "*"
		case 1:
			return "*" + name[strings.LastIndexByte(name, '.')+1:]
		}
		return name
	}
	text := kind + "@" + glob()
	for i, key := range faultKeys[kind] {
		needed := i == 0 && (key == "with" || key == "value" || key == "source")
		if !needed && r.IntN(3) > 0 {
			continue
		}
		value := fmt.Sprint(r.IntN(3))
		switch values := faultValues[key]; {
		case key == "with":
			value = glob()
		case key == "out":
			value = pick(r, []string{"y", "dx", "parts", "order", "receive", "stream", "probs", "bias", "total", "value", "scales"})
		case values != nil:
			value = pick(r, values)
		case r.IntN(2) == 0:
			value = pick(r, extremes)
		}
		text += " " + key + "=" + value
	}
	return text
}
