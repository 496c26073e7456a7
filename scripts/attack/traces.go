//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// traceAttack damages one of two traces and compares them. It knows whether they were the same before.
type traceAttack struct {
	pairs []pair
	bombs []string
}

// A pair is the traces of two runs, of which the second may have a fault.
type pair struct {
	a, b string
	same bool
}

func traces() attack {
	t := &traceAttack{}
	return attack{name: "traces", full: 2000, short: 60, prepare: t.prepare, try: t.try}
}

// prepare writes the traces that are damaged: of two ranks; with dumps; packed by zstd.
func (x *traceAttack) prepare(a *arena) error {
	t := &trial{arena: a, dir: filepath.Join(a.dir, "traces")}
	make := func(name string, args ...string) (string, error) {
		o, err := t.run(append([]string{"train", "--preset", "pico", "--steps", "2", "--trace", t.in(name)}, args...)...)
		if err == nil && o.code != 0 {
			err = errors.New(o.stderr)
		}
		return t.in(name), err
	}
	ranks := []string{"--layout", "dp=2", "--level", "semantic"}
	dumps := []string{"--level", "op", "--trace-steps", "1-2", "--dump", "*.wk"}
	wrong := []string{"--inject", "flip@layers.1.attn.wk step=2 elem=3 bit=3"}
	for i, flags := range [][]string{ranks, append(ranks, wrong...), dumps, append(dumps, wrong...)} {
		if _, err := make(fmt.Sprint(i), flags...); err != nil {
			return err
		}
	}
	for i := range 4 { // the same, packed
		dir, err := t.copied(t.in(fmt.Sprint(i)), fmt.Sprint(i, "z"))
		if err == nil {
			err = packAll(dir)
		}
		if err != nil {
			return err
		}
	}
	for _, packed := range []string{"", "z"} {
		for _, i := range []int{0, 2} {
			a, b := t.in(fmt.Sprint(i)), t.in(fmt.Sprint(i+1))
			x.pairs = append(x.pairs, pair{a, a + packed, true}, pair{a, b + packed, false})
		}
	}
	for i, line := range bombs {
		x.bombs = append(x.bombs, t.in(fmt.Sprint("bomb", i)))
		if err := makeBomb(x.bombs[i], line); err != nil {
			return err
		}
	}
	return x.control(t)
}

// control makes sure that the undamaged pairs have the right answers.
func (x *traceAttack) control(t *trial) error {
	for _, p := range x.pairs {
		o, err := t.run("diff", p.a, p.b)
		if err == nil && o.code != exitOf(p.same) {
			err = fmt.Errorf("diff of undamaged traces: exit %s: %s", o.status(), o.stderr)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func exitOf(same bool) int {
	if same {
		return 0
	}
	return 1
}

// packAll packs a trace's files.
func packAll(dir string) error {
	names, err := filesOf(dir, "rank")
	for _, name := range names {
		if err == nil {
			err = pack(name)
		}
	}
	return err
}

// pack replaces a file by itself packed.
func pack(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	w, err := zstd.NewWriter(nil)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".zst", w.EncodeAll(b, nil), 0o666); err != nil {
		return err
	}
	return os.Remove(name)
}

// What a damaged trace may be answered with.
type allowed int

const (
	refusal      allowed = iota // exit 2, one line
	asBefore                    // it has no meaning: as of the undamaged pair
	different                   // another trace that is whole: refused, or found to differ
	asBeforeOr2                 // either
	anything                    // but a crash, and "identical" of what was not
	refusedLater                // by a run that would continue, as nothing is damaged
)

func (x *traceAttack) try(t *trial) error {
	p := pick(t.rand, x.pairs)
	dir, err := t.copied(p.b, "b")
	if err != nil {
		return err
	}
	may, err := x.damage(t, p, dir)
	if err != nil {
		return err
	}
	args := [][]string{{"diff", p.a, dir}, {"diff", dir, p.a}, {"diff", dir}}[t.rand.IntN(3)]
	alone := len(args) == 2
	if t.rand.IntN(3) == 0 {
		args = append(args, "--json")
	}
	o, err := t.run(args...)
	if err != nil {
		return err
	}
	return x.judge(t, o, may, p.same || alone, alone)
}

func (x *traceAttack) judge(t *trial, o outcome, may allowed, same, alone bool) error {
	refused := o.unclear()
	if why := o.broken(); why != "" {
		return t.failed(o, "%s", why)
	}
	switch before := o.code == exitOf(same); {
	case refused == "" && may != asBefore && (o.idle() || strings.Contains(o.stderr, "cut short")):
		return nil
	case may == asBefore && before, may == asBeforeOr2 && before:
		return nil
	case may == different && (o.code == 1 || alone && o.code == 0):
		return nil
	case may == anything && (before || o.code == 1):
		return nil
	case o.code == 2:
		return t.failed(o, "%s", refused)
	}
	return t.failed(o, "answered by %d", o.code)
}

// damage does something to a trace and says what it may be answered with.
func (x *traceAttack) damage(t *trial, p pair, dir string) (allowed, error) {
	switch t.rand.IntN(10) {
	case 0, 1:
		return x.moveFiles(t, p, dir)
	case 2, 3:
		return forgeTrace(t, dir)
	case 4:
		return x.packed(t, dir)
	}
	names, err := filesOf(dir, "run.json", "rank", "host.json", "dump")
	if err != nil {
		return 0, err
	}
	name := pick(t.rand, names)
	base, _ := filepath.Rel(dir, name) // it lies below
	before, _ := unpacked(name)        // nothing, if it is not packed
	t.kind, err = damageFile(t.rand, name)
	t.what = base
	after, noneNow := unpacked(name)
	switch {
	case base == "host.json":
		t.kind = "host.json damaged"
		return asBefore, err
	case strings.HasPrefix(base, "dump"):
		t.kind = "a dump damaged"
		return anything, err
	case strings.HasSuffix(base, ".zst") && noneNow == nil && bytes.Equal(before, after):
		t.kind = "packed otherwise"
		return asBeforeOr2, err
	}
	return refusal, err
}

// unpacked is what a packed file holds.
func unpacked(name string) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<30 {
		return nil, errors.Join(err, errors.New("is no packed file"))
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return z.DecodeAll(b, nil)
}
