//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// signalAttack interrupts commands: once, and they end after what they were doing; or twice, and they end at once.
type signalAttack struct{}

func signals() attack {
	s := &signalAttack{}
	return attack{name: "signals", full: 16, short: 4, alone: true, prepare: func(*arena) error { return nil }, try: s.try}
}

// long is a number of steps that no run comes to.
const long = 1_000_000

func (x *signalAttack) try(t *trial) error {
	signal, code := syscall.SIGINT, 130
	if t.number%2 == 1 {
		signal, code = syscall.SIGTERM, 143
	}
	switch t.number / 2 % 4 {
	case 0:
		t.kind = "train, once"
		return x.train(t, signal, code, 1)
	case 1:
		t.kind = "train, twice"
		return x.train(t, signal, code, 2)
	case 2:
		t.kind = "train of 32 ranks, once"
		return x.train(t, signal, code, 1, "--layout", "dp=32")
	}
	t.kind = "a command of many runs"
	return x.command(t, signal, code)
}

func (x *signalAttack) train(t *trial, signal syscall.Signal, code, times int, more ...string) error {
	dir, trace := t.in("ck"), t.in("trace")
	mine, err := canaries(dir)
	if err != nil {
		return err
	}
	save := append([]string{"--save", dir, "--trace", trace, "--level", "semantic"}, more...)
	p, err := t.start(append(pairFlags(1, long), save...)...)
	if err != nil {
		return err
	}
	for strings.Count(p.stdout.String(), "\n") < 2 && time.Since(p.began) < t.limit { // a step ran
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Duration(t.rand.Int64N(int64(300 * time.Millisecond))))
	sent := time.Now()
	for range times {
		_ = p.cmd.Process.Signal(signal) // what it does is looked at below
		time.Sleep(20 * time.Millisecond)
	}
	o := p.wait(t)
	t.what = fmt.Sprintf("%v, %v after it", signal, time.Since(sent).Round(time.Millisecond))
	if why := o.broken(); times == 1 && (why != "" || o.code != code || strings.Count(o.stderr, "\n") != 1) {
		return t.failed(o, "must exit %d with one line: %s", code, why)
	}
	if times == 2 && (o.hung || o.code != code && o.signal == "" || strings.Contains(o.stderr, "goroutine ")) {
		return t.failed(o, "must end at once")
	}
	if err := t.tidy(o, dir, mine); times == 1 && err != nil {
		return err
	}
	return x.left(t, o, dir, trace, times, more)
}

// left wants what an interrupted run has written whole, up to its last step.
func (x *signalAttack) left(t *trial, o outcome, dir, trace string, times int, more []string) error {
	last := lastStep(o.stdout)
	if last == 0 {
		return t.failed(o, "no step ran")
	}
	if saved, err := filepath.Glob(filepath.Join(dir, "step??????")); err != nil || times == 1 && len(saved) != 1 {
		return t.failed(o, "%d checkpoints are left: %v", len(saved), err)
	}
	straight, err := t.succeed(append(append(pairFlags(1, last+2), "--trace", t.in("straight"), "--level", "semantic"), more...)...)
	if err != nil {
		return err
	}
	if err := t.continues(dir, append(pairFlags(1, last+2), more...), stateOf(straight.stdout, last+2)); err != nil {
		return err
	}
	d, err := t.run("diff", t.in("straight"), trace)
	if err != nil {
		return err
	}
	if d.code == 1 || d.broken() != "" || times == 1 && d.code != 0 {
		return t.failed(d, "the trace of an interrupted run: %s", d.broken())
	}
	return nil
}

// lastStep is the last that train printed.
func lastStep(stdout string) (last int) {
	for line := range strings.Lines(stdout) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(line, " ") {
			if n, err := strconv.Atoi(f[0]); err == nil {
				last = n
			}
		}
	}
	return last
}

// command interrupts a command that has temporary folders and processes of its own.
func (x *signalAttack) command(t *trial, signal syscall.Signal, code int) error {
	args := pick(t.rand, [][]string{{"verify", "resume"}, {"reproduce", "--all"}, {"fixtures", t.in("packs")}, {"verify", "repeat"}})
	p, err := t.start(args...)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(200+t.rand.IntN(2000)) * time.Millisecond)
	_ = p.cmd.Process.Signal(signal) // what it does is looked at below
	o := p.wait(t)
	t.what = fmt.Sprint(args, " ", signal)
	if why := o.broken(); why != "" || o.code != code || strings.Count(o.stderr, "\n") != 1 {
		return t.failed(o, "must exit %d with one line: %s", code, why)
	}
	if left, err := os.ReadDir(t.in("tmp")); err != nil || len(left) > 0 {
		return t.failed(o, "%d names are left in the temporary directory: %v", len(left), err)
	}
	if alive := t.children(); alive > 0 {
		return t.failed(o, "%d processes are left", alive)
	}
	return nil
}

// children counts the processes of the program; 0 where the system does not say. A child may still be ending.
func (t *trial) children() (alive int) {
	for range 20 {
		alive = 0
		links, err := filepath.Glob("/proc/[0-9]*/exe")
		if err != nil {
			return 0
		}
		for _, link := range links {
			if at, err := os.Readlink(link); err == nil && at == t.program {
				alive++
			}
		}
		if alive == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return alive
}
