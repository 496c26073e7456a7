//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// reportBrokenPipes has a write to a pipe that nobody reads fail. Go otherwise ends the program there and then, with a trace half
// written and temporary folders left.
func reportBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
