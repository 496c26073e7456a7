//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// A move is done to whole files.
type move struct {
	name string
	do   func() error
}

// moveFiles renames, swaps, removes and mixes the files of a trace, each of which stays whole.
func (x *traceAttack) moveFiles(t *trial, p pair, dir string) (allowed, error) {
	names, err := filesOf(dir, "rank")
	if err != nil {
		return 0, err
	}
	a, b := pick(t.rand, names), pick(t.rand, names)
	for a == b {
		b = pick(t.rand, names)
	}
	twin := func(name string) string { return filepath.Join(x.twin(p.b), filepath.Base(name)) }
	m := pick(t.rand, append(moves(names, a, b),
		move{"run.json of another run", func() error { return copyFile(twin("run.json"), filepath.Join(dir, "run.json")) }},
		move{"records of another run", func() error { return copyFile(twin(a), a) }}))
	t.kind, t.what = "files: "+m.name, filepath.Base(a)+" and "+filepath.Base(b)
	before, err := snapshot(dir)
	if err != nil {
		return 0, err
	}
	if err := m.do(); err != nil {
		return 0, err
	}
	if name, err := lost(dir, before); err != nil || name == "" && m.name == "records of another run" {
		return asBefore, err // until the fault they are the same
	}
	return refusal, nil
}

func moves(names []string, a, b string) []move {
	named := func(old, with string) string {
		return filepath.Join(filepath.Dir(a), strings.Replace(filepath.Base(a), old, with, 1))
	}
	return []move{
		{"two swapped", func() error { return firstError(os.Rename(a, a+".x"), os.Rename(b, a), os.Rename(a+".x", b)) }},
		{"one under another's name", func() error { return os.Rename(a, b) }},
		{"one copied over another", func() error { return copyFile(a, b) }},
		{"one under a name of its own", func() error { return os.Rename(a, named("rank0000", "rank0009")) }},
		{"one more, of a rank that is none", func() error { return copyFile(a, named("rank0000", "rank0009")) }},
		{"one more, of a step that is none", func() error { return copyFile(a, named("_iter00000", "_iter00900")) }},
		{"all of a rank lost", func() error { return removeAll(names, filepath.Base(a)[:9]) }},
		{"all of a step lost", func() error { return removeAll(names, filepath.Base(a)[9:]) }},
		{"all records lost", func() error { return removeAll(names, "rank") }},
		{"one beside itself packed", func() error { return beside(a) }},
		{"a link to another", func() error { return firstError(os.Remove(a), os.Symlink(filepath.Base(b), a)) }},
	}
}

// twin is the trace of the run with the fault, or without.
func (x *traceAttack) twin(dir string) string {
	for _, p := range x.pairs {
		if !p.same && p.b == dir {
			return p.a + strings.TrimLeft(filepath.Base(dir), "0123456789")
		}
		if !p.same && p.a == strings.TrimSuffix(dir, "z") && strings.HasSuffix(p.b, "z") == strings.HasSuffix(dir, "z") {
			return p.b
		}
	}
	return ""
}

func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o666)
}

func removeAll(names []string, part string) error {
	for _, name := range names {
		if strings.Contains(filepath.Base(name), part) {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside puts a file's other form beside it.
func beside(name string) error {
	if !strings.HasSuffix(name, ".zst") {
		if err := copyFile(name, name+"x"); err != nil {
			return err
		}
		return firstError(pack(name), os.Rename(name+"x", name))
	}
	b, err := unpacked(name)
	if err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(name, ".zst"), b, 0o666)
}

// bombs are texts of which a GiB is packed.
var bombs = []string{"\x00", "{}\n", `{"schema_version":2,"rank":0,"iteration":1,"phase":"fwd","kind":"op","name":"x"}` + "\n"}

// makeBomb packs a GiB of a text.
func makeBomb(path, line string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	block := bytes.Repeat([]byte(line), 1<<20/len(line))
	for range 1 << 10 {
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	return w.Close()
}

// packed packs a file, or puts in its place something that unpacks to far more.
func (x *traceAttack) packed(t *trial, dir string) (allowed, error) {
	names, err := filesOf(dir, "rank")
	if err != nil {
		return 0, err
	}
	name := pick(t.rand, names)
	t.what = filepath.Base(name)
	i := t.rand.IntN(len(bombs) + 1)
	if i < len(bombs) {
		t.kind = fmt.Sprintf("packed: a bomb of %.12q", bombs[i])
		return refusal, firstError(os.Remove(name), copyFile(x.bombs[i], strings.TrimSuffix(name, ".zst")+".zst"))
	}
	t.kind = "packed: by others, or not"
	if !strings.HasSuffix(name, ".zst") {
		return asBefore, pack(name)
	}
	b, err := unpacked(name)
	if err != nil {
		return 0, err
	}
	return asBefore, firstError(os.Remove(name), os.WriteFile(strings.TrimSuffix(name, ".zst"), b, 0o666))
}
