package main

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// output is standard output, unbuffered. Its first failure decides the exit code, whoever was printing; what is printed after it
// is dropped.
type output struct {
	file *os.File
	err  error
}

// Write does not fail: nobody but run has to look.
func (o *output) Write(p []byte) (int, error) {
	if o.err == nil {
		_, err := o.file.Write(visible(p))
		o.failed(err)
	}
	return len(p), nil
}

// close says whether all was written. Some file systems know only then.
func (o *output) close() error {
	o.failed(o.file.Close())
	return o.err
}

func (o *output) failed(err error) {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	if err != nil && o.err == nil {
		o.err = writeError{err}
	}
}

// writeError is a failure of standard output.
type writeError struct{ error }

func (w writeError) Error() string { return "standard output: " + w.error.Error() }
func (w writeError) Unwrap() error { return w.error }

// written is the failure of what was printed so far, for commands that go on for long.
func written(out io.Writer) error {
	if o, ok := out.(*output); ok {
		return o.err
	}
	return nil
}

// unread tells whether an error says that nobody reads standard output any more.
func unread(err error) bool {
	var w writeError
	return errors.As(err, &w) && errors.Is(w, syscall.EPIPE)
}

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
