package run

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"firstbit/kernel"
	"firstbit/parallel"
)

// crash is what ended a rank of a run with faults by a panic. What ends a program on a machine, such as an index with another bit, which
// points where there is nothing, ends the run here.
type crash struct {
	where string // the Call that was running; empty: none
	value any
	stack []byte
}

func (c *crash) Error() string { return fmt.Sprintf("%s%v\n\n%s", c.where, c.value, c.stack) }

// crashed keeps a panic on the goroutine of a rank.
func crashed(r *session, p any) error {
	c := &crash{value: p, stack: debug.Stack()}
	var f *kernel.Failure
	if err, ok := p.(error); ok && errors.As(err, &f) {
		c.value, c.stack = f.Value, f.Stack
	}
	if r != nil {
		if at := r.device.Running(); at != nil {
			c.where = fmt.Sprintf("%s %s of step %d: ", at.ID.Phase, at.ID.Path, at.ID.Step)
		}
	}
	return c
}

// blame puts a panic, or that ranks no longer do the same, down to the faults that acted, once no rank runs any more. Where none did a panic
// is a mistake of ours, and goes on, unless a Call ran on operands that a user gave.
func (j *job) blame(err error, ranks []*session) error {
	var c *crash
	var apart *parallel.Conflict
	acted := acted(ranks)
	switch {
	case errors.As(err, &c) && acted == nil && j.given != "":
		what, _, _ := strings.Cut(fmt.Sprint(c.value), "\n")
		return fmt.Errorf("%s cannot run on the operands that are given: %s", j.given, what)
	case errors.As(err, &c) && acted == nil:
		panic(c)
	case errors.As(err, &c):
		what, _, _ := strings.Cut(fmt.Sprint(c.value), "\n")
		err = fmt.Errorf("%s%s", c.where, what)
	case !errors.As(err, &apart) || acted == nil:
		return err
	}
	return fmt.Errorf("--inject %s: the run cannot go on: %w", strings.Join(acted, ", "), err)
}

// acted lists the faults, quoted, that changed something on any rank.
func acted(ranks []*session) (texts []string) {
	begun := slices.DeleteFunc(slices.Clone(ranks), func(r *session) bool { return r == nil })
	if len(begun) == 0 {
		return nil
	}
	for _, f := range faulted(begun) {
		if f.Changed > 0 {
			texts = append(texts, strconv.Quote(f.Spec))
		}
	}
	return texts
}
