//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/run"
	"firstbit/trace"
)

// child is another process.
type child struct {
	*exec.Cmd
	t      *testing.T
	lines  *bufio.Scanner
	stderr strings.Builder
	tmp    string // its temporary directory
}

func begin(t *testing.T, as string, args ...string) *child {
	t.Helper()
	p := &child{Cmd: exec.Command(os.Args[0], args...), t: t, tmp: t.TempDir()}
	p.Env = append(os.Environ(), as+"=1", "TMPDIR="+p.tmp)
	p.Stderr = &p.stderr
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	p.lines = bufio.NewScanner(out)
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() }) // most have ended
	return p
}

// until reads a line that begins with a word.
func (p *child) until(word string) {
	p.t.Helper()
	for p.lines.Scan() {
		if strings.HasPrefix(strings.TrimSpace(p.lines.Text()), word) {
			return
		}
	}
	p.t.Fatalf("no line begins with %q: %s", word, p.stderr.String())
}

func (p *child) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.Process.Signal(s))
}

// end is the exit code, and what it says on stderr.
func (p *child) end() (int, string) {
	p.t.Helper()
	for p.lines.Scan() {
	}
	_ = p.Wait() // the code tells
	left, err := os.ReadDir(p.tmp)
	require.NoError(p.t, err)
	require.Empty(p.t, left, "nothing temporary is left")
	return p.ProcessState.ExitCode(), p.stderr.String()
}

func TestSignalsEndATrainingAfterAStep(t *testing.T) {
	for s, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} { // order reaches nothing
		dir := t.TempDir()
		saved, traced := filepath.Join(dir, "ck"), filepath.Join(dir, "t")
		p := begin(t, asProgram, "train", "--preset", "pico", "--layout", "dp=2", "--steps", "1000000", "--save", saved, "--keep", "1", "--trace", traced, "--level", "metrics")
		p.until("2 ")
		p.signal(s)
		got, said := p.end()
		require.Equal(t, code, got, said)
		ck, err := checkpoint.Open(saved)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("firstbit: interrupted after step %d: continue with --resume %s\n", ck.Step, ck.Dir), said)
		tr, err := trace.Open(traced)
		require.NoError(t, err)
		require.False(t, tr.Truncated)
		require.Equal(t, ck.Step, *tr.Run.Last)
		left, err := os.ReadDir(saved)
		require.NoError(t, err)
		require.Len(t, left, 1)
	}
}

// The children of a command end with it, and so do their folders.
func TestSignalsEndOtherCommands(t *testing.T) {
	packs := filepath.Join(t.TempDir(), "packs")
	for _, args := range []string{"verify resume", "reproduce --all", "fixtures " + packs, "localize --a=--steps=1000 --b=--steps=1000"} {
		p := begin(t, asProgram, strings.Split(args, " ")...)
		deadline := time.Now().Add(time.Minute)
		for { // until it is in the middle of something
			left, err := os.ReadDir(p.tmp)
			require.NoError(t, err)
			if len(left) > 0 {
				break
			}
			require.True(t, time.Now().Before(deadline))
			time.Sleep(5 * time.Millisecond)
		}
		p.signal(syscall.SIGTERM)
		code, said := p.end()
		require.Equal(t, 143, code, said)
		require.Equal(t, "firstbit: interrupted: nothing is kept of what was under way, run it again\n", said)
	}
	require.NoDirExists(t, packs)
}

func TestTheSecondSignalEndsAtOnce(t *testing.T) {
	p := begin(t, asStuck)
	p.until("begun")
	p.signal(syscall.SIGINT)
	p.until("asked")
	p.signal(syscall.SIGTERM)
	code, _ := p.end()
	require.Equal(t, 143, code)
}

// What there is to say differs with what was saved.
func TestHowToGoOn(t *testing.T) {
	for want, c := range map[string]struct { // order reaches nothing
		f trainFlags
		i run.Interrupted
	}{
		"interrupted after step 3: continue with --resume ck/step000003":                                       {trainFlags{}, run.Interrupted{Step: 3, Saved: "ck/step000003"}},
		"interrupted after step 3: nothing was saved, run it again, with --save FOLDER to continue from there": {trainFlags{}, run.Interrupted{Step: 3}},
		"interrupted after step 3: nothing was saved, continue with --resume ck as before":                     {trainFlags{resume: "ck"}, run.Interrupted{Step: 3}},
		"interrupted before the first step: run it again":                                                      {trainFlags{}, run.Interrupted{}},
		"interrupted before the first step: nothing was saved, continue with --resume ck as before":            {trainFlags{resume: "ck"}, run.Interrupted{}},
	} {
		require.Equal(t, want, c.f.goOn(&c.i))
	}
}
