package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/zeebo/xxh3"
)

// maxLine bounds one record: the longest of a model of twenty thousand tensors is shorter.
const maxLine = 4 << 20

// ErrCut is the error of a file that ends before its end record does: whoever wrote it was stopped.
var ErrCut = errors.New("is truncated")

// Read reads one file: its records and its end record. Whatever is not as it was written is an error.
func Read(r io.Reader) ([]Record, End, error) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<16), maxLine)
	s.Split(wholeLine)
	f := reading{hash: xxh3.New(), keys: map[Key]bool{}}
	line := 0
	for s.Scan() && s.Err() == nil { // after an error comes what was left of a line
		line++
		if err := f.add(s.Bytes()); err != nil {
			return nil, End{}, fmt.Errorf("line %d: %w", line, err)
		}
	}
	switch err := s.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, End{}, fmt.Errorf("line %d: is longer than %d bytes", line+1, maxLine)
	case errors.Is(err, io.ErrUnexpectedEOF): // of a packed file
		return nil, End{}, fmt.Errorf("%w: after %d records it does not go on", ErrCut, len(f.records))
	case err != nil:
		return nil, End{}, err
	case !f.ended:
		return nil, End{}, fmt.Errorf("%w: after %d records there is no end record", ErrCut, len(f.records))
	}
	return f.records, f.end, nil
}

// wholeLine gives lines with their newline; the last may lack it.
func wholeLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// reading is a file so far.
type reading struct {
	records []Record
	keys    map[Key]bool
	hash    *xxh3.Hasher
	end     End
	ended   bool
}

func (f *reading) add(line []byte) error {
	if line[len(line)-1] != '\n' {
		return fmt.Errorf("%w: the line does not end", ErrCut)
	}
	if f.ended {
		return errors.New("stands after the end record")
	}
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("is no record: %s: the file is damaged", strings.TrimPrefix(err.Error(), "json: "))
	}
	if err := printable(line); err != nil {
		return err
	}
	if r.Kind == "end" {
		return f.close(line)
	}
	if err := f.check(&r); err != nil {
		return err
	}
	_, _ = f.hash.Write(line) // a hash does not fail
	f.records = append(f.records, r)
	return nil
}

var (
	kinds  = []string{"metric", "state", "collective", "p2p", "draw", "batch", "optim", "load", "recompute", "module", "op", "kernel"}
	phases = []string{"init", "fwd", "rec", "bwd", "opt", "load"}
)

func (f *reading) check(r *Record) error {
	switch {
	case r.SchemaVersion != SchemaVersion:
		return fmt.Errorf("schema_version %d: this program reads %d", r.SchemaVersion, SchemaVersion)
	case !slices.Contains(kinds, r.Kind):
		return fmt.Errorf("kind %q: must be one of %s, end", r.Kind, strings.Join(kinds, ", "))
	case !slices.Contains(phases, r.Phase):
		return fmt.Errorf("phase %q: must be one of %s", r.Phase, strings.Join(phases, ", "))
	case f.keys[r.Key()]:
		return fmt.Errorf("%s has a second record: a key names one", r.Key())
	}
	f.keys[r.Key()] = true
	if len(f.records) == 0 {
		return nil
	}
	before := &f.records[len(f.records)-1]
	switch {
	case r.Rank != before.Rank:
		return fmt.Errorf("rank %d in a file of rank %d", r.Rank, before.Rank)
	case r.Seq <= before.Seq:
		return fmt.Errorf("seq %d stands after seq %d", r.Seq, before.Seq)
	}
	return nil
}

// close reads the end record, which is written in one way only, and holds the file against it.
func (f *reading) close(line []byte) error {
	if err := json.Unmarshal(line, &f.end); err != nil {
		return fmt.Errorf("is no end record: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	var is bytes.Buffer
	text, err := json.Marshal(f.end)
	if err = errors.Join(err, json.Compact(&is, line)); err != nil || !bytes.Equal(is.Bytes(), text) {
		return errors.New("is no end record: must be kind, rank, iteration, records, digest and previous, in this order and no more")
	}
	f.ended = true
	if n := len(f.records); f.end.Records != n {
		return fmt.Errorf("the end record counts %d records, the file holds %d", f.end.Records, n)
	}
	if digest := hexOf(f.hash); digest != f.end.Digest {
		return fmt.Errorf("the end record has digest %s, the lines before it %s: the file is damaged", f.end.Digest, digest)
	}
	for i := range f.records {
		r := &f.records[i]
		if r.Rank != f.end.Rank {
			return fmt.Errorf("the end record is of rank %d, the file of rank %d", f.end.Rank, r.Rank)
		}
		if f.end.Iteration != nil && r.Iteration != *f.end.Iteration {
			return fmt.Errorf("the end record is of iteration %d, seq %d of iteration %d", *f.end.Iteration, r.Seq, r.Iteration)
		}
	}
	return nil
}

// printable refuses names that a terminal would take for commands. Only lines with an escape, or beyond ASCII, can hold such.
func printable(text []byte) error {
	if !bytes.ContainsFunc(text, func(r rune) bool { return r == '\\' || r >= 0x7f }) {
		return nil
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return printableValue(v)
}

func printableValue(v any) error {
	switch v := v.(type) {
	case string:
		if i := strings.IndexFunc(v, unicode.IsControl); i >= 0 {
			return fmt.Errorf("%q holds a control character", v)
		}
	case []any:
		for _, e := range v {
			if err := printableValue(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, e := range v { // any of them is refused: order reaches nothing
			if err := errors.Join(printableValue(k), printableValue(e)); err != nil {
				return err
			}
		}
	}
	return nil
}
