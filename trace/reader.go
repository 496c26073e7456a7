package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Trace is a trace read back.
type Trace struct {
	Dir   string
	Run   Run
	Raw   map[string]any // run.json as it stands
	Ranks []Rank         // ascending
}

// Rank is one rank's records in the order of their execution.
type Rank struct {
	Rank    int
	Records []Record
}

var fileName = regexp.MustCompile(`^rank(\d{5,})(?:_iter(\d{6,}))?\.jsonl(?:\.zst)?$`)

// Open reads a trace directory.
func Open(dir string) (*Trace, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w: must be a directory written by train --trace", dir, cause(err))
	}
	t := &Trace{Dir: dir}
	if err := t.readRun(); err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if fileName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	if len(names) == 0 {
		return nil, fmt.Errorf("trace %s: holds no rank*.jsonl files", dir)
	}
	for _, name := range names {
		if err := t.readFile(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("trace %s: %w", filepath.Join(dir, name), err)
		}
	}
	return t, nil
}

func (t *Trace) readRun() error {
	path := filepath.Join(t.Dir, "run.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("trace %s: %w: a trace holds run.json", path, cause(err))
	}
	if err := json.Unmarshal(text, &t.Run); err != nil {
		return fmt.Errorf("trace %s: %w", path, err)
	}
	return json.Unmarshal(text, &t.Raw)
}

func (t *Trace) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return cause(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".zst") {
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return err
		}
		defer z.Close()
		r = z
	}
	records, err := Read(r)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return nil
	}
	rank := records[0].Rank
	i := sort.Search(len(t.Ranks), func(i int) bool { return t.Ranks[i].Rank >= rank })
	if i == len(t.Ranks) || t.Ranks[i].Rank != rank {
		t.Ranks = append(t.Ranks, Rank{})
		copy(t.Ranks[i+1:], t.Ranks[i:])
		t.Ranks[i] = Rank{Rank: rank}
	}
	t.Ranks[i].Records = append(t.Ranks[i].Records, records...)
	return nil
}

// maxLine bounds one record: more is no trace.
const maxLine = 64 << 20

// Read reads one file's records. The last line must be the end record with
// their number; a file cut short says so.
func Read(r io.Reader) ([]Record, error) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<16), maxLine)
	var records []Record
	ended := false
	line := 0
	for s.Scan() {
		line++
		if ended {
			return nil, fmt.Errorf("line %d: stands after the end record", line)
		}
		var rec Record
		if err := json.Unmarshal(s.Bytes(), &rec); err != nil {
			return nil, fmt.Errorf("line %d: is no record (%v): the file is damaged or cut short", line, err)
		}
		if rec.Kind == "end" {
			if rec.Records != len(records) {
				return nil, fmt.Errorf("line %d: the end record counts %d records, the file holds %d", line, rec.Records, len(records))
			}
			ended = true
			continue
		}
		if rec.SchemaVersion != SchemaVersion {
			return nil, fmt.Errorf("line %d: schema_version %d: this program reads %d", line, rec.SchemaVersion, SchemaVersion)
		}
		if len(records) > 0 && rec.Rank != records[0].Rank {
			return nil, fmt.Errorf("line %d: rank %d in a file of rank %d", line, rec.Rank, records[0].Rank)
		}
		records = append(records, rec)
	}
	switch err := s.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: is longer than %d bytes", line+1, maxLine)
	case err != nil:
		return nil, err
	case !ended:
		return nil, fmt.Errorf("is truncated: after %d records there is no end record", len(records))
	}
	return records, nil
}
