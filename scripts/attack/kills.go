//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// killAttack kills runs that save and trace at random moments, and continues them.
type killAttack struct {
	saverAttack
}

func kills() attack {
	k := &killAttack{}
	return attack{name: "kills", full: 100, short: 6, alone: true, prepare: k.prepare, try: k.try}
}

func (x *killAttack) try(t *trial) error {
	dir := t.in("run")
	mine, err := canaries(dir)
	if err != nil {
		return err
	}
	more := []string{"--level", "semantic", "--save", dir, "--save-every", "1"}
	t.kind = "a run that saves and traces"
	if t.rand.IntN(2) == 0 {
		t.kind = "a run that prunes too"
		more = append(more, "--keep", "2")
	}
	for i := range 1 + t.rand.IntN(3) { // what continues is killed too
		flags := append(pairFlags(1, pairSteps), more...)
		if step := newest(dir); step > 0 {
			flags = append(flags, "--resume", dir, "--schedule", fmt.Sprint(i))
			if step == pairSteps {
				break
			}
		}
		if err := x.kill(t, dir, t.in(fmt.Sprint("trace", i)), flags, mine); err != nil {
			return err
		}
	}
	if err := t.continues(dir, pairFlags(1, pairResumed), x.state[1]); err != nil {
		return err
	}
	return x.saveOn(t, dir, mine)
}

// kill kills a run at a random moment.
func (x *killAttack) kill(t *trial, dir, trace string, flags []string, mine map[string]string) error {
	p, err := t.start(append(flags, "--trace", trace)...)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(t.rand.Int64N(int64(x.took))))
	_ = p.cmd.Process.Kill() // or it has ended
	o := p.wait(t)
	if o.fat || o.hung || o.signal == "" && o.code != 0 {
		return t.failed(o, "fails before it is killed: %s", o.broken())
	}
	if name, err := lost(dir, mine); err != nil || name != "" {
		return t.failed(o, "%s of the user's is gone: %v", name, err)
	}
	return x.readCut(t, trace)
}

// newest is the step of the newest checkpoint in a folder; 0: there is none.
func newest(dir string) (step int) {
	for step = pairResumed; step > 0; step-- {
		if _, err := os.Stat(filepath.Join(dir, stepName(step))); err == nil {
			break
		}
	}
	return step
}

// readCut compares what a killed run traced: as far as that goes, nothing differs.
func (x *killAttack) readCut(t *trial, trace string) error {
	o, err := t.run("diff", x.trace, trace)
	if err != nil {
		return err
	}
	if why := o.broken(); why != "" || o.code == 1 {
		return t.failed(o, "the trace of a killed run: %s", why)
	}
	return nil
}

// saveOn continues in the same folder, and wants it tidy at the end.
func (x *killAttack) saveOn(t *trial, dir string, mine map[string]string) error {
	flags := append(pairFlags(1, pairResumed), "--save", dir)
	if newest(dir) > 0 {
		flags = append(flags, "--resume", dir)
	}
	o, err := t.succeed(flags...)
	if err != nil {
		return err
	}
	return t.tidy(o, dir, mine)
}
