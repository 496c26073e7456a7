package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"firstbit/files"
)

// Trace is a trace read back.
type Trace struct {
	Dir   string
	Run   Run
	Raw   map[string]any // run.json as it stands
	Ranks []Rank         // ascending; those that hold records

	// Truncated tells that the run was stopped before it could say what the trace holds: here are its steps up to Whole, the last that every
	// traced rank has whole; −1: none is.
	Truncated bool
	Whole     int
}

// Rank is one rank's records in the order of their execution.
type Rank struct {
	Rank    int
	Records []Record
}

// Bounds on what is read. A run of sixteen thousand ranks is described in a few MiB, and a rank's step has a few MiB at the deepest level;
// records are packed eight to one, as half of them is digests.
const (
	maxRun    = 16 << 20
	maxFile   = 1 << 30
	maxRatio  = 200
	maxWindow = 128 << 20 // of zstd, the largest that its command takes unasked
)

// Open reads a trace directory. One that is not what its run.json and the end records say is an error; one that was cut short is read as far as
// it is whole.
func Open(dir string) (*Trace, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w: must be a directory written by train --trace", dir, files.Reason(err))
	}
	t := &Trace{Dir: dir}
	c, err := t.readRun()
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", filepath.Join(dir, "run.json"), err)
	}
	if err := c.find(entries); err != nil {
		return nil, fmt.Errorf("trace %s: %w", dir, err)
	}
	for i := range c.ranks {
		records, err := c.ranks[i].read(dir, c.closed)
		if err != nil {
			return nil, fmt.Errorf("trace %w", err)
		}
		t.Ranks = append(t.Ranks, Rank{c.ranks[i].rank, records})
	}
	if err := t.settle(c); err != nil {
		return nil, fmt.Errorf("trace %s: %w", dir, err)
	}
	return t, nil
}

func (t *Trace) readRun() (*contents, error) {
	text, err := files.Read(filepath.Join(t.Dir, "run.json"), maxRun)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: a trace holds run.json", files.Reason(err))
	}
	if err != nil {
		return nil, files.Reason(err)
	}
	if t.Run, err = DecodeRun(text); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &t.Raw); err != nil {
		return nil, err
	}
	if err := printableValue(t.Raw); err != nil {
		return nil, err
	}
	return t.Run.contents()
}

// settle holds what was read against what the run said at its end; of a run that did not come to that, it keeps what all ranks have whole.
func (t *Trace) settle(c *contents) error {
	if c.closed {
		if ends := c.ends(); ends != t.Run.Ends {
			return fmt.Errorf("the last files have digest %s, run.json says %s: they are of another run", ends, t.Run.Ends)
		}
	} else {
		t.Truncated, t.Whole = true, c.whole()
	}
	t.Ranks = slices.DeleteFunc(t.Ranks, func(r Rank) bool { return len(r.Records) == 0 })
	for i := range t.Ranks {
		if t.Truncated {
			t.Ranks[i].Records = slices.DeleteFunc(t.Ranks[i].Records, func(r Record) bool { return r.Iteration > t.Whole })
		}
	}
	switch {
	case t.Truncated && t.Whole < 0:
		return errors.New("was cut short before any step was whole: there is nothing to compare")
	case len(t.Ranks) == 0:
		return errors.New("holds no records: its ranks, steps and level leave none")
	}
	return nil
}

// open opens a file of records, decompressed.
func open(path string) (io.ReadCloser, error) {
	f, err := files.Open(path, maxFile)
	if err != nil || !strings.HasSuffix(path, ".zst") {
		return f, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return &unpacked{z: z, f: f, left: min(maxFile, maxRatio*info.Size()+1<<20)}, nil
}

// unpacked is a compressed file that gives no more than such a file can hold.
type unpacked struct {
	z    *zstd.Decoder
	f    *os.File
	left int64
}

func (u *unpacked) Read(b []byte) (int, error) {
	n, err := u.z.Read(b)
	if u.left -= int64(n); u.left < 0 {
		return 0, fmt.Errorf("unpacks to more than %d times its size: records do not", maxRatio)
	}
	return n, err
}

// Close closes the file below.
func (u *unpacked) Close() error {
	u.z.Close()
	return u.f.Close()
}
