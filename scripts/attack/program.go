//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
)

// A process is the program under way.
type process struct {
	args           []string
	cmd            *exec.Cmd
	stdout, stderr text
	began          time.Time
	stop           chan bool
	watched        chan bool
	hung, fat      bool
}

// An outcome is what is seen of a process from outside.
type outcome struct {
	args           []string
	code           int // −1: ended by a signal
	signal         string
	stdout, stderr string
	wall           time.Duration
	peak           int64 // bytes
	hung, fat      bool
}

// text keeps the beginning of an output.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(p[:min(len(p), max(1<<20-w.b.Len(), 0))])
	return len(p), nil
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// start runs the program. What it should keep for itself alone goes into the trial's tmp.
func (t *trial) start(args ...string) (*process, error) {
	p := &process{args: args, cmd: exec.Command(t.program, args...), stop: make(chan bool), watched: make(chan bool)}
	if t.limits != "" {
		p.cmd = exec.Command("sh", append([]string{"-c", t.limits + `; exec "$0" "$@"`, t.program}, args...)...)
	}
	p.cmd.Dir = t.dir
	p.cmd.Env = append(os.Environ(), "TMPDIR="+t.in("tmp"))
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := os.MkdirAll(t.in("tmp"), 0o777); err != nil {
		return nil, err
	}
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.watch(t.limit, t.memory)
	return p, nil
}

// watch kills what takes too long or too much.
func (p *process) watch(limit time.Duration, memory int64) {
	defer close(p.watched)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			p.hung = p.hung || time.Since(p.began) > limit
			p.fat = p.fat || resident(p.cmd.Process.Pid) > memory
			if p.hung || p.fat {
				_ = p.cmd.Process.Kill() // it may have just ended
			}
		}
	}
}

// resident is the memory of a process; 0 where the system does not say.
func resident(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// wait ends with the process.
func (p *process) wait(t *trial) outcome {
	err := p.cmd.Wait()
	o := outcome{args: p.args, wall: time.Since(p.began)}
	close(p.stop)
	<-p.watched
	state := p.cmd.ProcessState
	o.code, o.stdout, o.stderr, o.hung, o.fat = state.ExitCode(), p.stdout.String(), p.stderr.String(), p.hung, p.fat
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		o.signal = s.Signal().String()
	}
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		o.peak = int64(u.Maxrss)
		if runtime.GOOS != "darwin" { // where it is bytes
			o.peak <<= 10
		}
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		o.stderr += err.Error()
	}
	o.fat = o.fat || o.peak > t.memory
	t.worst.wall, t.worst.peak = max(t.worst.wall, o.wall), max(t.worst.peak, o.peak)
	return o
}

// run runs the program to its end.
func (t *trial) run(args ...string) (outcome, error) {
	p, err := t.start(args...)
	if err != nil {
		return outcome{}, err
	}
	return p.wait(t), nil
}

func (o outcome) status() string {
	if o.signal != "" {
		return o.signal
	}
	return strconv.Itoa(o.code)
}

// broken says why no process of ours may end so, whatever it read; empty: it may.
func (o outcome) broken() string {
	switch {
	case o.hung:
		return "hangs"
	case o.fat:
		return "takes too much memory"
	case o.signal != "":
		return "ended by " + o.signal
	case strings.Contains(o.stderr, "goroutine ") || strings.Contains(o.stderr, "fatal error") || strings.Contains(o.stderr, "panic:"):
		return "panics"
	}
	for _, r := range o.stdout + o.stderr {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return fmt.Sprintf("prints %q to a terminal", r)
		}
	}
	return ""
}

// unclear says why an answer is no refusal: exit 2 with one line on stderr; empty: it is one.
func (o outcome) unclear() string {
	lines := strings.Count(o.stderr, "\n")
	switch why := o.broken(); {
	case why != "":
		return why
	case o.code != 2:
		return "is not refused"
	case lines != 1 || !strings.HasPrefix(o.stderr, "firstbit: "):
		return fmt.Sprintf("says %d lines on stderr", lines)
	}
	return ""
}

// idle tells that no step ran and nothing was answered: a heading is printed at once.
func (o outcome) idle() bool { return strings.Count(o.stdout, "\n") <= 1 }
