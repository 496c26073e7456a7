//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// saverAttack has two processes write into one folder, or one read what another writes.
type saverAttack struct {
	state [3]string // after so many steps, by seed
	dir   string    // of what is made once: a trace, and checkpoints
	trace string
	took  time.Duration
}

const (
	pairSteps   = 8
	pairResumed = pairSteps + 2
)

func savers() attack {
	s := &saverAttack{}
	return attack{name: "savers", full: 60, short: 4, alone: true, prepare: s.prepare, try: s.try}
}

// pairFlags are those of a run whose rate does not depend on the number of its steps.
func pairFlags(seed, steps int) []string {
	return []string{"train", "--preset", "pico", "--layout", "dp=2", "--precision", "bf16", "--set", "model.dropout=0.1", "--set", "optim.decay=constant",
		"--seed", fmt.Sprint(seed), "--steps", fmt.Sprint(steps)}
}

func (x *saverAttack) prepare(a *arena) error {
	dir, err := os.MkdirTemp(a.dir, "base-")
	if err != nil {
		return err
	}
	t := &trial{arena: a, dir: dir}
	for seed := 1; seed < len(x.state); seed++ {
		o, err := t.succeed(pairFlags(seed, pairResumed)...)
		if err != nil {
			return err
		}
		x.state[seed] = stateOf(o.stdout, pairResumed)
	}
	x.dir, x.trace = t.dir, t.in("trace")
	_, err = t.succeed(append(pairFlags(1, pairSteps), "--trace", x.trace, "--level", "semantic")...)
	if err != nil {
		return err
	}
	o, err := t.succeed(append(pairFlags(1, pairSteps), "--save", t.in("ck"), "--save-every", "1")...)
	x.took = o.wall
	return err
}

// soon is a while in which a run of the kind does something.
func (x *saverAttack) soon(t *trial) { time.Sleep(time.Duration(t.rand.Int64N(int64(x.took)))) }

func (x *saverAttack) try(t *trial) error {
	dir := t.in("shared")
	switch t.rand.IntN(5) {
	case 0:
		t.kind = "one run twice, saving"
		return x.twoSavers(t, dir, 1)
	case 1:
		t.kind = "two runs, saving"
		return x.twoSavers(t, dir, 2)
	case 2:
		t.kind = "two runs, tracing"
		return x.twoTracers(t, dir)
	case 3:
		t.kind = "a reader beside a saver that prunes"
		return x.reader(t, dir)
	}
	t.kind = "a restart beside a run that lives"
	return x.restart(t, dir)
}

// both runs two processes, the second a little later.
func (x *saverAttack) both(t *trial, first, second []string) (a, b outcome, err error) {
	p, err := t.start(first...)
	if err != nil {
		return a, b, err
	}
	if t.rand.IntN(2) == 0 {
		x.soon(t)
	}
	q, err := t.start(second...)
	if err != nil {
		return p.wait(t), b, err
	}
	return p.wait(t), q.wait(t), nil
}

// oneWins wants one process to end well and the other too, or to be refused in a line.
func oneWins(t *trial, a, b outcome) (winner outcome, err error) {
	for _, o := range []outcome{a, b} {
		if o.code != 0 {
			if why := o.unclear(); why != "" {
				return o, t.failed(o, "%s", why)
			}
		}
	}
	if a.code != 0 && b.code != 0 {
		return a, t.failed(a, "both are refused; the other: %s", b.stderr)
	}
	if a.code == 0 {
		return a, nil
	}
	return b, nil
}

func (x *saverAttack) twoSavers(t *trial, dir string, other int) error {
	mine, err := canaries(dir)
	if err != nil {
		return err
	}
	save := func(seed int) []string {
		return append(pairFlags(seed, pairSteps), "--save", dir, "--save-every", "1")
	}
	a, b, err := x.both(t, save(1), save(other))
	if err != nil {
		return err
	}
	winner, err := oneWins(t, a, b)
	if err != nil {
		return err
	}
	if a.code == 0 && b.code == 0 {
		return t.failed(b, "both write into one folder")
	}
	seed := 1
	if slices.Equal(winner.args, save(other)) {
		seed = other
	}
	if err := t.tidy(winner, dir, mine); err != nil {
		return err
	}
	return t.continues(dir, pairFlags(seed, pairResumed), x.state[seed])
}

// continues wants every checkpoint of a folder to be whole, and the newest to continue to a state.
func (t *trial) continues(dir string, flags []string, state string) error {
	steps, err := filepath.Glob(filepath.Join(dir, "step??????"))
	if err != nil {
		return err
	}
	for _, step := range steps {
		o, err := t.run("checkpoint", "show", step)
		if err != nil {
			return err
		}
		if o.code != 0 {
			return t.failed(o, "a checkpoint that has its name is damaged")
		}
	}
	if len(steps) > 0 {
		flags = append(flags, "--resume", dir)
	}
	o, err := t.run(flags...)
	if err != nil {
		return err
	}
	m := stateLine.FindStringSubmatch(o.stdout)
	if o.code != 0 || m == nil || m[1] != state {
		return t.failed(o, "what is left continues with other bits than %s", state)
	}
	return nil
}

// tidy wants a user's own files as they were, and nothing temporary but what a next run removes.
func (t *trial) tidy(o outcome, dir string, mine map[string]string) error {
	name, err := lost(dir, mine)
	if err == nil && name != "" {
		err = t.failed(o, "%s of the user's is gone or another", name)
	}
	if err != nil {
		return err
	}
	left, err := os.ReadDir(t.in("tmp"))
	if err == nil && len(left) > 0 {
		err = t.failed(o, "%s is left in the temporary directory", left[0].Name())
	}
	if err != nil || o.code < 0 { // a killed one leaves what the next run removes
		return err
	}
	names, err := os.ReadDir(dir)
	for _, e := range names {
		if strings.HasPrefix(e.Name(), ".") && mine[filepath.Join(dir, e.Name())] == "" {
			return t.failed(o, "%s is left in the folder", e.Name())
		}
	}
	return err
}

func (x *saverAttack) twoTracers(t *trial, dir string) error {
	args := append(pairFlags(1, pairSteps), "--level", "semantic", "--trace", dir)
	a, b, err := x.both(t, args, args)
	if err != nil {
		return err
	}
	if _, err := oneWins(t, a, b); err != nil {
		return err
	}
	if a.code == 0 && b.code == 0 {
		return t.failed(b, "both write into one folder")
	}
	return t.sameTrace(x.trace, dir)
}

func (t *trial) sameTrace(a, b string) error {
	o, err := t.run("diff", a, b)
	if err == nil && o.code != 0 {
		err = t.failed(o, "the trace is damaged")
	}
	return err
}

// reader reads as long as another process saves and prunes. It finds a checkpoint whenever there is one.
func (x *saverAttack) reader(t *trial, dir string) error {
	mine, err := canaries(dir)
	if err != nil {
		return err
	}
	p, err := t.start(append(pairFlags(1, pairSteps), "--save", dir, "--save-every", "1", "--keep", "1")...)
	if err != nil {
		return err
	}
	ended, found := make(chan outcome), false
	go func() { ended <- p.wait(&trial{arena: t.arena}) }()
	for {
		select {
		case o := <-ended:
			if o.code != 0 || o.broken() != "" {
				return t.failed(o, "the saver fails: %s", o.broken())
			}
			if err := t.tidy(o, dir, mine); err != nil {
				return err
			}
			return t.continues(dir, pairFlags(1, pairResumed), x.state[1])
		default:
		}
		o, err := t.run("checkpoint", "show", dir)
		if err == nil && o.code != 0 && (found || o.unclear() != "") {
			err = t.failed(o, "a reader fails")
		}
		if err != nil {
			return errors.Join(err, p.cmd.Process.Kill())
		}
		found = found || o.code == 0
	}
}

// restart begins from a checkpoint of a run that still lives, into its folder.
func (x *saverAttack) restart(t *trial, dir string) error {
	mine, err := canaries(dir)
	if err != nil {
		return err
	}
	save := []string{"--save", dir, "--save-every", "1"}
	p, err := t.start(append(pairFlags(1, pairSteps), save...)...)
	if err != nil {
		return err
	}
	x.soon(t)
	b, err := t.run(append(append(pairFlags(1, pairSteps), save...), "--resume", dir)...)
	a := p.wait(t)
	if err != nil {
		return err
	}
	if a.code != 0 || a.broken() != "" {
		return t.failed(a, "the run that lived fails: %s", a.broken())
	}
	if why := b.unclear(); why != "" {
		return t.failed(b, "the second %s", why)
	}
	if err := t.tidy(a, dir, mine); err != nil {
		return err
	}
	return t.continues(dir, pairFlags(1, pairResumed), x.state[1])
}
