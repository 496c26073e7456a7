package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// status is the last line of a terminal while a command works: on standard error, if that is a terminal, and not before a
// command has taken patience. It leaves when something is printed, and when the command ends.
type status struct {
	mu    sync.Mutex
	to    *os.File // nil: nobody sits there
	what  string
	since time.Time
	bar   *progressbar.ProgressBar // nil: how much is left is not known
	drawn bool
	ended chan struct{}
}

// live is the status line of the process.
var live status

const patience, redraw = time.Second, 250 * time.Millisecond

// begin watches a command.
func (s *status) begin(to *os.File) {
	if !isTerminal(to) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to, s.since, s.ended = to, time.Now(), make(chan struct{})
	go func(ended chan struct{}) {
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				s.draw()
			}
		}
	}(s.ended)
}

// name says which command it is.
func (s *status) name(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what = what
}

func (s *status) end() {
	s.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to != nil {
		close(s.ended)
	}
	s.to, s.bar = nil, nil
}

func (s *status) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Since(s.since)
	if s.to == nil || took < patience {
		return
	}
	line := fmt.Sprintf("%s  %d s", s.what, took/time.Second)
	if s.bar != nil {
		_ = s.bar.Add(0) // the time that is left is another
		line = s.bar.String()
	}
	s.drawn = true
	fmt.Fprint(s.to, "\r\x1b[K"+string([]rune(line)[:min(len([]rune(line)), terminalWidth-1)]))
}

// clear takes the line away before something else is printed.
func (s *status) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn {
		fmt.Fprint(s.to, "\r\x1b[K")
	}
	s.drawn = false
}

// progress is how far work has come of which one knows how much there is.
type progress struct{}

func newProgress(what string, total int) *progress {
	live.mu.Lock()
	defer live.mu.Unlock()
	if live.to != nil {
		live.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(io.Discard), progressbar.OptionSetDescription(what+" "),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(16))
	}
	return &progress{}
}

func (p *progress) step() {
	live.mu.Lock()
	defer live.mu.Unlock()
	if live.bar != nil {
		_ = live.bar.Add(1) // what a bar cannot draw is no loss
	}
}

func (p *progress) say(what string) {
	const most = 36 // so that the line is none of two
	live.mu.Lock()
	if live.bar != nil {
		live.bar.Describe(string([]rune(what)[:min(len([]rune(what)), most)]) + " ")
	}
	live.mu.Unlock()
	p.step()
}

func (p *progress) done() {
	live.mu.Lock()
	defer live.mu.Unlock()
	live.bar = nil
}
