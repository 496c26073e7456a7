package main

import (
	"encoding/json"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// printJSON writes one object and nothing else.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// progress shows long work on stderr, on a terminal only.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(what string, total int) *progress {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return &progress{}
	}
	what += " "
	return &progress{progressbar.NewOptions(total, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))}
}

func (p *progress) step() {
	if p.bar != nil {
		_ = p.bar.Add(1) // what a bar cannot draw is no loss
	}
}

func (p *progress) say(what string) {
	if p.bar != nil {
		p.bar.Describe(what + " ")
		_ = p.bar.Add(1)
	}
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
