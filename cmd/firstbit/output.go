package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// output is standard output, unbuffered. Its first failure decides the exit code, whoever was printing; what is printed after it
// is dropped.
type output struct {
	file   *os.File
	colour bool
	err    error
}

// Write does not fail: nobody but run has to look.
func (o *output) Write(p []byte) (int, error) {
	if o.err == nil {
		live.clear()
		_, err := o.file.Write(o.inked(p))
		o.failed(err)
	}
	return len(p), nil
}

// inked is text as it is shown: marked digits in colour, if there is any, and escapes for what a terminal would obey.
func (o *output) inked(p []byte) []byte {
	var b []byte
	at := 0
	for _, m := range marked.FindAllSubmatchIndex(p, -1) {
		b = append(b, visible(p[at:m[0]])...)
		digits := p[m[2]:m[3]]
		if o.colour {
			digits = fmt.Appendf(nil, "\x1b[1;31m%s\x1b[0m", digits)
		}
		b, at = append(b, digits...), m[1]
	}
	return append(b, visible(p[at:])...)
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
