package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-shellwords"

	"firstbit/reduce"
)

// decimal is a number as a program reads it: as fp32 or as fp64 it is the same.
func decimal(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func decimals(x []float32) []string {
	s := make([]string, len(x))
	for i, v := range x {
		s[i] = decimal(float64(v))
	}
	return s
}

// revealProgram reveals the order in which a program adds.
func revealProgram(command string, n int, wait time.Duration) (reduce.Revealed, error) {
	p, err := startProgram(command, wait)
	if err != nil {
		return reduce.Revealed{}, err
	}
	r, err := reduce.RevealBox(n, p.ask, reduce.Formats{})
	if err != nil {
		p.kill()
		return r, err
	}
	if p.end() {
		err = p.failed("it printed more lines than it was asked for")
	}
	return r, err
}

// summing is a program that reads vectors and prints sums.
type summing struct {
	name    string
	wait    time.Duration
	process *exec.Cmd
	in      io.WriteCloser
	lines   chan string // of its output; closed at its end
	said    tail        // on stderr
	asked   int
}

// answerMost is more bytes than a number takes.
const answerMost = 4096

func startProgram(command string, wait time.Duration) (*summing, error) {
	words, err := shellwords.Parse(command)
	if err == nil && len(words) == 0 {
		err = errors.New("must be a program and its arguments")
	}
	if err != nil {
		return nil, fmt.Errorf("--exec %q: %w", command, err)
	}
	p := &summing{name: command, wait: wait, process: exec.Command(words[0], words[1:]...), lines: make(chan string, 16)}
	p.process.Stderr = &p.said
	p.process.WaitDelay = time.Second // for the pipes of what it started itself
	if p.in, err = p.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("--exec %q: %w", command, err)
	}
	out, err := p.process.StdoutPipe()
	if err == nil {
		err = p.process.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("--exec %q: %w", command, err)
	}
	go p.read(out)
	return p, nil
}

func (p *summing) read(out io.Reader) {
	defer close(p.lines)
	r := bufio.NewReaderSize(out, answerMost)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 || err == nil {
			p.lines <- strings.TrimSpace(string(line))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// ask puts one question.
func (p *summing) ask(x []float32) (float64, error) {
	p.asked++
	select {
	case line, open := <-p.lines:
		if !open {
			return 0, p.failed("it ended" + p.last())
		}
		return 0, p.failed(fmt.Sprintf("it printed %.60q without being asked: one line for each line that it reads", line))
	default:
	}
	late := time.NewTimer(p.wait)
	defer late.Stop()
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(p.in, strings.Join(decimals(x), " ")+"\n")
		sent <- err
	}()
	for {
		select {
		case err := <-sent:
			if sent = nil; err != nil {
				return 0, p.failed("it does not read" + p.last())
			}
		case <-late.C:
			return 0, p.failed(fmt.Sprintf("no answer within %v: it must print one line for each line that it reads, and flush", p.wait))
		case line, open := <-p.lines:
			if !open {
				return 0, p.failed("it ended" + p.last())
			}
			v, err := strconv.ParseFloat(line, 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 0, p.failed(fmt.Sprintf("it printed %.60q: must be one number", line))
			}
			return v, nil
		}
	}
}

func (p *summing) failed(why string) error {
	return fmt.Errorf("--exec %q: question %d: %s", p.name, p.asked, why)
}

// last is the last line that the program wrote to stderr, once it has ended.
func (p *summing) last() string {
	_ = p.process.Wait() // how it ended is of no interest beside what it said
	if s := p.said.line(); s != "" {
		return ": " + s
	}
	return ""
}

// grace is how long a program may take to end once there is nothing more to read.
const grace = 5 * time.Second

// end has the program read to the end of what it was sent, and ends it. It tells whether the program printed what nobody has read: one that
// prints more than a line for each may be behind with its reading, and have been asked all there was to ask.
func (p *summing) end() (more bool) {
	_ = p.in.Close()
	late := time.AfterFunc(min(grace, p.wait), func() { _ = p.process.Process.Kill() }) // it may have ended
	defer late.Stop()
	for range p.lines {
		more = true
		_ = p.process.Process.Kill()
	}
	_ = p.process.Wait()
	return more
}

// kill ends the program at once.
func (p *summing) kill() {
	_ = p.in.Close()
	_ = p.process.Process.Kill() // it may have ended
	for range p.lines {
	}
	_ = p.process.Wait()
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// Write keeps the last bytes.
func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-answerMost):]
	return len(b), nil
}

// line is the last line that is not empty.
func (t *tail) line() string {
	all := bytes.TrimSpace(t.kept)
	return string(all[bytes.LastIndexByte(all, '\n')+1:])
}
