//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// An arena is the program and a private folder for all that it reads and writes.
type arena struct {
	options
	dir string

	mu      sync.Mutex
	mounted map[string]func() error // by folder
}

func newArena(o options) (*arena, error) {
	dir, err := os.MkdirTemp("", "attack-")
	if err != nil {
		return nil, err
	}
	a := &arena{options: o, dir: dir, mounted: map[string]func() error{}}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		a.close()
		os.Exit(1)
	}()
	if a.program != "" {
		a.program, err = filepath.Abs(a.program)
		return a, err
	}
	a.program = filepath.Join(dir, "firstbit")
	if out, err := exec.Command("go", "build", "-o", a.program, "./cmd/firstbit").CombinedOutput(); err != nil {
		a.close()
		return nil, fmt.Errorf("go build: %w: %s", err, out)
	}
	return a, nil
}

// close leaves nothing behind.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, unmount := range a.mounted { // order reaches nothing
		_ = unmount() // it may have been before
	}
	_ = os.RemoveAll(a.dir) // a private folder of the temporary directory
}

// mount puts a small file system at a folder, until unmount.
func (a *arena) mount(dir string, size int64) (unmount func() error, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	unmount, err = mountSmall(dir, size)
	if err == nil {
		a.mounted[dir] = unmount
	}
	return unmount, err
}

// random is the numbers of a case.
func (a *arena) random(attack string, i int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, attack, i) // a hash does not fail
	return rand.New(rand.NewPCG(a.seed, h.Sum64()))
}

// A trial is a case under way.
type trial struct {
	*arena
	attack  string
	number  int
	rand    *rand.Rand
	dir     string
	kind    string // what is done, for the table
	what    string // and to what, for a failure
	limits  string // shell commands before the program starts
	worst   worst
	failure error
}

func (t *trial) in(name string) string { return filepath.Join(t.dir, name) }

// copied is a copy of a folder in the trial's.
func (t *trial) copied(from, name string) (string, error) {
	to := t.in(name)
	return to, os.CopyFS(to, os.DirFS(from))
}

// failed is a failure with what led to it.
func (t *trial) failed(o outcome, format string, args ...any) error {
	return fmt.Errorf("%s, %s: %s\n    $ firstbit %s\n    exit %s, %v, %d MiB\n    %s%s", t.kind, t.what, fmt.Sprintf(format, args...),
		strings.Join(o.args, " "), o.status(), o.wall.Round(1e6), o.peak>>20, clip(o.stderr), clip(o.stdout))
}

func clip(s string) string {
	if len(s) > 600 {
		s = s[:300] + " … " + s[len(s)-300:]
	}
	return strings.ReplaceAll(s, "\n", "\n    ")
}

// snapshot is what lies below a folder: of each name what it is, and a hash of what it holds.
func snapshot(dir string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a process is at work
			return nil
		}
		if err != nil {
			return err
		}
		all[path] = d.Type().String()
		if d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			all[path] += hex.EncodeToString(sum[:])
		}
		return nil
	})
	return all, err
}

// canaries puts files of a user's own into a folder, some of which look like ours, and returns what must still be there at the end.
func canaries(dir string) (map[string]string, error) {
	for name, text := range map[string]string{ // order reaches nothing
		"notes.txt": "mine", ".hidden": "mine too", "step7/weights": "mine", "stepx/y": "mine", "step000099.bak/rank00000.safetensors": "mine", "old/run.json": "{}",
		"rank00000.jsonl.txt": "mine", ".saving": "mine", "saving-1/z": "mine",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			return nil, err
		}
	}
	return snapshot(dir)
}

// lost names what of a snapshot is no longer as it was; empty: nothing.
func lost(dir string, before map[string]string) (string, error) {
	now, err := snapshot(dir)
	if err != nil {
		return "", err
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if now[path] != before[path] {
			return path, nil
		}
	}
	return "", nil
}
