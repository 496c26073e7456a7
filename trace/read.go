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

// ErrTruncated is the error of a file that ends before its end record does: whoever wrote it was stopped.
var ErrTruncated = errors.New("is truncated")

// Verify reads one file's end record and holds the file against it, without keeping records: a damaged file takes no memory.
func Verify(r io.Reader) (end End, err error) {
	hash, last, ended := xxh3.New(), []byte{}, false
	n := 0
	err = eachLine(r, func(line []byte) error {
		if ended {
			return errors.New("stands after the end record")
		}
		_, _ = hash.Write(last) // a hash does not fail
		last = append(last[:0], line...)
		ended = bytes.HasPrefix(last, []byte(endPrefix))
		n++
		return nil
	})
	if err == nil && !ended {
		err = fmt.Errorf("%w: after %d records there is no end record", ErrTruncated, n)
	}
	if err != nil {
		return end, err
	}
	if end, err = parseEnd(last); err != nil {
		return end, fmt.Errorf("line %d: %w", n, err)
	}
	if end.Records != n-1 {
		return end, fmt.Errorf("the end record counts %d records, the file holds %d", end.Records, n-1)
	}
	if digest := hexOf(hash); digest != end.Digest {
		return end, fmt.Errorf("the end record has digest %s, the lines before it %s: the file is damaged", end.Digest, digest)
	}
	return end, nil
}

// endPrefix begins every end record, and no other.
const endPrefix = `{"kind":"end",`

// parseEnd reads an end record, which is written in one way only.
func parseEnd(line []byte) (end End, err error) {
	if err := json.Unmarshal(line, &end); err != nil {
		return end, fmt.Errorf("is no end record: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if text, err := json.Marshal(end); err != nil || string(line) != string(text)+"\n" {
		return end, errors.New("is no end record: must be kind, rank, iteration, records, digest and previous, in this order, no more, and without blanks")
	}
	return end, nil
}

// parse reads the records of a file whose end record holds.
func parse(r io.Reader, end End) ([]Record, error) {
	records, keys, hash := make([]Record, 0, min(end.Records, 1<<12)), map[Key]bool{}, xxh3.New()
	err := eachLine(r, func(line []byte) error {
		if len(records) == end.Records {
			return nil
		}
		_, _ = hash.Write(line) // a hash does not fail
		r, err := parseRecord(line)
		if err != nil {
			return err
		}
		n := len(records)
		switch {
		case r.Rank != end.Rank:
			return fmt.Errorf("rank %d in a file of rank %d", r.Rank, end.Rank)
		case end.Iteration != nil && r.Iteration != *end.Iteration:
			return fmt.Errorf("iteration %d in a file of iteration %d", r.Iteration, *end.Iteration)
		case n > 0 && r.Seq <= records[n-1].Seq:
			return fmt.Errorf("seq %d stands after seq %d", r.Seq, records[n-1].Seq)
		case keys[r.Key()]:
			return fmt.Errorf("%s has a second record: a key names one", r.Key())
		}
		keys[r.Key()] = true
		records = append(records, r)
		return nil
	})
	if err == nil && hexOf(hash) != end.Digest {
		err = errors.New("changed while it was read")
	}
	return records, err
}

var (
	kinds  = []string{"metric", "state", "collective", "p2p", "draw", "batch", "optim", "load", "recompute", "module", "op", "kernel"}
	phases = []string{"init", "fwd", "rec", "bwd", "opt", "load"}
)

func parseRecord(line []byte) (r Record, err error) {
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("is no record: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	switch {
	case r.SchemaVersion != SchemaVersion:
		return r, fmt.Errorf("schema_version %d: this program reads %d", r.SchemaVersion, SchemaVersion)
	case !slices.Contains(kinds, r.Kind):
		return r, fmt.Errorf("kind %q: must be one of %s", r.Kind, strings.Join(kinds, ", "))
	case !slices.Contains(phases, r.Phase):
		return r, fmt.Errorf("phase %q: must be one of %s", r.Phase, strings.Join(phases, ", "))
	}
	if r.Place != nil {
		if err := r.Place.Check(); err != nil {
			return r, fmt.Errorf("place: %w", err)
		}
	}
	return r, printable(line)
}

// eachLine gives lines with their newline. Its errors say which line they are of.
func eachLine(r io.Reader, do func(line []byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<16), maxLine)
	s.Split(wholeLine)
	n := 1
	for ; s.Scan() && s.Err() == nil; n++ { // after an error comes what was left of a line
		line := s.Bytes()
		if line[len(line)-1] != '\n' {
			return fmt.Errorf("line %d: %w: it does not end", n, ErrTruncated)
		}
		if err := do(line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := s.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: is longer than %d bytes", n, maxLine)
	case errors.Is(err, io.ErrUnexpectedEOF): // of a packed file
		return fmt.Errorf("line %d: %w: the packed file does not go on", n, ErrTruncated)
	default:
		return err
	}
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
