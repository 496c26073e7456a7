//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// diskAttack has runs write where there is no room: a file system that is full, files that may not grow, no more open files, a standard output that
// takes nothing.
type diskAttack struct {
	saverAttack
}

func disks() attack {
	d := &diskAttack{}
	return attack{name: "disks", full: 24, short: 4, alone: true, prepare: d.prepare, try: d.try}
}

func (x *diskAttack) try(t *trial) error {
	switch t.number % 4 {
	case 0:
		return x.full(t)
	case 1:
		t.kind = "files that may not grow"
		return x.write(t, t.in("full"), fmt.Sprintf("ulimit -f %d", 1+t.rand.IntN(400)))
	case 2:
		t.kind = "no more open files"
		return x.write(t, t.in("full"), fmt.Sprintf("ulimit -n %d", 8+t.rand.IntN(12)))
	}
	return x.output(t)
}

// full writes to a small file system, where one can be made.
func (x *diskAttack) full(t *trial) error {
	dir := t.in("full")
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	t.kind = "a full disk"
	unmount, err := t.mount(dir, 100<<10+t.rand.Int64N(4<<20))
	if errors.Is(err, errors.ErrUnsupported) {
		t.kind = "a full disk: none can be made here"
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(x.write(t, dir, ""), unmount())
}

// write runs where something is in short supply. The run ends well or with one line, and what has its final name is whole.
func (x *diskAttack) write(t *trial, dir, limit string) error {
	mine, err := canaries(filepath.Join(dir, "ck"))
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	t.limits, t.what = limit, limit
	o, err := t.run(append(pairFlags(1, pairSteps), "--save", in("ck"), "--save-every", "1", "--trace", in("trace"), "--level", "semantic")...)
	t.limits = ""
	if err != nil {
		return err
	}
	if o.code != 0 {
		if why := o.unclear(); why != "" {
			return t.failed(o, "%s", why)
		}
	}
	if err := t.tidy(o, in("ck"), mine); err != nil {
		return err
	}
	if err := t.continues(in("ck"), pairFlags(1, pairResumed), x.state[1]); err != nil {
		return err
	}
	d, err := t.run("diff", x.trace, in("trace"))
	if err != nil {
		return err
	}
	if d.broken() != "" || d.code == 1 || o.code == 0 && d.code != 0 {
		return t.failed(d, "the trace: %s", d.broken())
	}
	return nil
}

// output runs a command whose standard output takes nothing.
func (x *diskAttack) output(t *trial) error {
	t.kind = "a standard output that is full"
	if _, err := os.Stat("/dev/full"); err != nil {
		t.kind += ": none here"
		return nil
	}
	args := pick(t.rand, [][]string{{"list"}, {"list", "--json"}, {"tree", "seq", "-n", "4"}, {"tree", "seq", "-n", "4", "--json"}, {"reveal", "matmul", "-n", "4"},
		{"diff", x.trace, x.trace}, {"diff", x.trace, x.trace, "--json"}, {"diff", x.trace}, {"reproduce", "dprob-atomics"}, {"version"}, {"--help"},
		pairFlags(1, 2), append(pairFlags(1, 2), "--json"), {"checkpoint", "show", filepath.Join(x.dir, "ck")}, {"checkpoint", "show", filepath.Join(x.dir, "ck"), "--json"}})
	t.limits, t.what = "exec >/dev/full", strings.Join(args, " ")
	o, err := t.run(args...)
	if err != nil {
		return err
	}
	if why := o.unclear(); why != "" {
		return t.failed(o, "%s", why)
	}
	return nil
}
