//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// checkpointAttack damages checkpoints, and shows or continues them.
type checkpointAttack struct {
	runs []savedRun
}

// A savedRun has checkpoints of three steps.
type savedRun struct {
	dir   string
	flags []string // of a run that continues
	state string   // after step 4
	other string   // checkpoints of a run with another seed
}

const (
	savedSteps  = 3
	afterResume = 4
)

func checkpoints() attack {
	c := &checkpointAttack{}
	return attack{name: "checkpoints", full: 2000, short: 60, prepare: c.prepare, try: c.try}
}

func (x *checkpointAttack) prepare(a *arena) error {
	t := &trial{arena: a, dir: filepath.Join(a.dir, "checkpoints")}
	for i, flags := range [][]string{
		{"--layout", "dp=2", "--precision", "bf16"},
		{"--set", "model.dropout=0.1", "--precision", "nvfp4"},
		{"--layout", "dp=2", "--recipe", "canonical", "--set", "model.moe.aux=sequence", "--set", "batch=2"},
	} {
		flags = append([]string{"train", "--preset", "pico"}, flags...)
		r := savedRun{dir: t.in(fmt.Sprint(i)), flags: flags, other: t.in(fmt.Sprint(i, "other"))}
		for dir, seed := range map[string]string{r.dir: "1", r.other: "2"} { // order reaches nothing
			if _, err := t.succeed(append(flags, "--seed", seed, "--steps", fmt.Sprint(savedSteps), "--save", dir, "--save-every", "1")...); err != nil {
				return err
			}
		}
		o, err := t.succeed(append(flags, "--steps", fmt.Sprint(afterResume))...)
		if err != nil {
			return err
		}
		if r.state = stateOf(o.stdout, afterResume); r.state == "" {
			return errors.New("train prints no state")
		}
		x.runs = append(x.runs, r)
	}
	r := x.runs[2] // continues on another layout too, whose first rank has another part of the state
	r.flags = append(append([]string{}, r.flags...), "--layout", "pp=2", "--set", "batch=4")
	o, err := t.succeed(append(r.flags, "--steps", fmt.Sprint(afterResume), "--resume", r.dir)...)
	if err != nil {
		return err
	}
	r.state = stateOf(o.stdout, afterResume)
	x.runs = append(x.runs, r)
	for _, r := range x.runs { // the control: undamaged, they continue
		o, err := t.succeed(append(r.flags, "--steps", fmt.Sprint(afterResume), "--resume", r.dir)...)
		if err == nil && stateOf(o.stdout, afterResume) != r.state {
			err = fmt.Errorf("%s: continues with other bits", r.dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// succeed runs the program, which must exit 0.
func (t *trial) succeed(args ...string) (outcome, error) {
	o, err := t.run(args...)
	if err == nil && o.code != 0 {
		err = fmt.Errorf("firstbit %s: exit %s: %s", strings.Join(args, " "), o.status(), o.stderr)
	}
	return o, err
}

var stateLine = regexp.MustCompile(`(?m)^state ([0-9a-f]{32}) after step (\d+)`)

// stateOf is the digest of all state after a step, as train prints it; empty: it did not.
func stateOf(stdout string, step int) string {
	if m := stateLine.FindStringSubmatch(stdout); m != nil && m[2] == fmt.Sprint(step) {
		return m[1]
	}
	return ""
}

func (x *checkpointAttack) try(t *trial) error {
	r := pick(t.rand, x.runs)
	dir, err := t.copied(r.dir, "ck")
	if err != nil {
		return err
	}
	whole := t.rand.IntN(2) == 0 // the folder of all, or the newest of them
	may, err := x.damage(t, r, dir)
	if err != nil {
		return err
	}
	at := dir
	if !whole {
		at = filepath.Join(dir, stepName(savedSteps))
	}
	if t.rand.IntN(3) == 0 {
		o, err := t.run("checkpoint", "show", at)
		if err != nil {
			return err
		}
		return judgeShown(t, o, may)
	}
	o, err := t.run(append(r.flags, "--steps", fmt.Sprint(afterResume), "--resume", at)...)
	if err != nil {
		return err
	}
	return judgeResumed(t, o, may, r.state)
}

func stepName(step int) string { return fmt.Sprintf("step%06d", step) }

func judgeShown(t *trial, o outcome, may allowed) error {
	switch why := o.unclear(); {
	case o.broken() != "":
		return t.failed(o, "%s", o.broken())
	case may != asBefore && why == "" && o.idle():
		return nil
	case may != refusal && o.code == 0:
		return nil
	default:
		return t.failed(o, "answered by %s: %s", o.status(), why)
	}
}

func judgeResumed(t *trial, o outcome, may allowed, state string) error {
	got := stateOf(o.stdout, afterResume)
	switch why := o.unclear(); {
	case o.broken() != "":
		return t.failed(o, "%s", o.broken())
	case may != asBefore && why == "" && o.idle():
		return nil
	case (may == asBefore || may == asBeforeOr2) && got == state, may == anything && o.code == 0:
		return nil
	case o.code == 0:
		return t.failed(o, "continues with state %s, not %s", got, state)
	default:
		return t.failed(o, "answered by %s: %s", o.status(), why)
	}
}

// damage does something to the newest of the checkpoints of a folder, or rarely to an older one.
func (x *checkpointAttack) damage(t *trial, r savedRun, dir string) (allowed, error) {
	newest := filepath.Join(dir, stepName(savedSteps))
	switch t.rand.IntN(10) {
	case 0, 1:
		return moveCheckpoint(t, r, dir)
	case 2, 3, 4, 5:
		return forgeCheckpoint(t, newest)
	}
	names, err := filesOf(newest, "manifest.json", "rank")
	if err != nil {
		return 0, err
	}
	name := pick(t.rand, names)
	t.kind, err = damageFile(t.rand, name)
	t.what = filepath.Base(name)
	return refusal, err
}

// moveCheckpoint renames, swaps, removes and mixes whole files and folders.
func moveCheckpoint(t *trial, r savedRun, dir string) (allowed, error) {
	newest, older := filepath.Join(dir, stepName(savedSteps)), filepath.Join(dir, stepName(savedSteps-1))
	names, err := filesOf(newest, "rank")
	if err != nil {
		return 0, err
	}
	a, b := filepath.Base(pick(t.rand, names)), filepath.Base(pick(t.rand, names))
	in := filepath.Join
	all := []struct {
		move
		may allowed
	}{
		{move{"a rank's file of another step", func() error { return copyFile(in(older, a), in(newest, a)) }}, refusal},
		{move{"a rank's file of another run", func() error { return copyFile(in(r.other, stepName(savedSteps), a), in(newest, a)) }}, refusal},
		{move{"the manifest of another step", func() error { return copyFile(in(older, "manifest.json"), in(newest, "manifest.json")) }}, refusal},
		{move{"the manifest of another run", func() error {
			return copyFile(in(r.other, stepName(savedSteps), "manifest.json"), in(newest, "manifest.json"))
		}}, refusal},
		{move{"another step under its name", func() error { return firstError(os.RemoveAll(newest), os.Rename(older, newest)) }}, refusal},
		{move{"files more", func() error {
			return firstError(copyFile(in(newest, a), in(newest, "mine")), os.Mkdir(in(dir, "notes"), 0o777))
		}}, asBefore},
		{move{"a link to it", func() error { return firstError(os.Rename(newest, newest+".x"), os.Symlink(newest+".x", newest)) }}, asBeforeOr2},
		{move{"older ones damaged", func() error { return firstError(os.Remove(in(older, a)), os.Truncate(in(dir, stepName(1), a), 9)) }}, asBefore},
		{move{"the folder empty", func() error { return firstError(os.RemoveAll(newest), os.Mkdir(newest, 0o777)) }}, refusal},
		{move{"a file for the folder", func() error { return firstError(os.RemoveAll(newest), copyFile(in(older, a), newest)) }}, asBeforeOr2},
	}
	if a != b {
		all = append(all, struct {
			move
			may allowed
		}{move{"two ranks swapped", func() error {
			return firstError(os.Rename(in(newest, a), in(newest, "x")), os.Rename(in(newest, b), in(newest, a)), os.Rename(in(newest, "x"), in(newest, b)))
		}}, refusal})
	}
	m := pick(t.rand, all)
	t.kind, t.what = m.name, a
	return m.may, m.do()
}
