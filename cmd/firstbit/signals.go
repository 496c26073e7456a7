package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"firstbit/run"
)

// interruption is a command that a signal ended, and how to go on.
type interruption struct {
	code int // what a shell sees of a program that the signal ends
	text string
}

func (i interruption) Error() string { return i.text }

// interruptible gives a command a context that ends with the first SIGINT or SIGTERM, so that it can leave everything whole. say is how to go
// on then. The second signal ends the program at once.
func interruptible(do func(ctx context.Context) error, say func(*run.Interrupted) string) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	go func() {
		select {
		case s := <-signals:
			end(interruption{code: codeOf(s)})
			os.Exit(codeOf(<-signals))
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	var by interruption
	var i *run.Interrupted
	if errors.As(err, &i) && errors.As(context.Cause(ctx), &by) {
		return interruption{by.code, say(i)}
	}
	return err
}

func codeOf(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 128 + int(syscall.SIGINT)
}

// again is for commands that keep nothing of what they were in the middle of.
func again(*run.Interrupted) string {
	return "interrupted: nothing is kept of what was under way, run it again"
}
