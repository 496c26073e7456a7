package trace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"firstbit/files"
)

// contents is what run.json says that a trace holds, and the files that hold it.
type contents struct {
	closed bool // the run ended and said so
	ranks  []rankFiles
}

// rankFiles is what a trace has of one rank.
type rankFiles struct {
	rank  int
	steps Set // in spans; of a trace that is not closed, those that were asked for
	files []stepFile
	whole int    // the last step that was read whole; −1: none
	last  string // the digest of the last such file
}

type stepFile struct {
	step int // everyStep: all of the rank's
	name string
}

const everyStep = -1

// contents reads the description.
func (r *Run) contents() (*contents, error) {
	world, err := r.world()
	if err != nil {
		return nil, err
	}
	c := &contents{closed: r.Last != nil}
	listed := make([]bool, world)
	for _, p := range r.Holds {
		ranks, err := p.set(p.Ranks)
		if err != nil {
			return nil, err
		}
		steps, err := p.set(p.Steps)
		if err != nil {
			return nil, err
		}
		for _, span := range ranks {
			if span.Hi >= world {
				return nil, fmt.Errorf("holds: ranks %q: layout %q has ranks 0 to %d", p.Ranks, r.Layout, world-1)
			}
			for rank := span.Lo; rank <= span.Hi; rank++ {
				if listed[rank] {
					return nil, fmt.Errorf("holds: rank %d stands there twice", rank)
				}
				listed[rank] = true
				c.ranks = append(c.ranks, rankFiles{rank: rank, steps: steps, whole: -1})
			}
		}
		if n := len(steps); n > 0 && steps[n-1].Hi == math.MaxInt && c.closed {
			return nil, fmt.Errorf("holds: steps %q: have no end, though the run ended at step %d", p.Steps, *r.Last)
		}
	}
	slices.SortFunc(c.ranks, func(a, b rankFiles) int { return a.rank - b.rank })
	if len(c.ranks) == 0 {
		return nil, errors.New("holds: names no rank: must list the ranks and steps of the trace")
	}
	return c, nil
}

// set reads ranks or steps, which are written in one way only.
func (h Holding) set(text string) (Set, error) {
	if text == nothing {
		return nil, nil
	}
	s, err := ParseSet(text)
	if err != nil {
		return nil, fmt.Errorf("holds: %w", err)
	}
	if len(s) == 0 || s.normal().String() != text {
		return nil, fmt.Errorf("holds: %q: must be in order, and as few ranges as there can be", text)
	}
	return s, nil
}

// numbers are those in the name of a file of records, such as rank00000_iter000001.jsonl or rank00000.jsonl, packed or not.
func numbers(name string) (rank, step string, ok bool) {
	name, ok = strings.CutSuffix(strings.TrimSuffix(name, ".zst"), ".jsonl")
	name, ranked := strings.CutPrefix(name, "rank")
	rank, step, stepped := strings.Cut(name, "_iter")
	return rank, step, ok && ranked && digits(rank, 5) && (!stepped || digits(step, 6))
}

func digits(s string, least int) bool { return len(s) >= least && strings.Trim(s, "0123456789") == "" }

// find sorts the files in a trace's directory by rank and step. In a closed trace none may lack.
func (c *contents) find(entries []os.DirEntry) error {
	for _, e := range entries {
		if rank, step, ok := numbers(e.Name()); ok {
			if err := c.add(e.Name(), rank, step); err != nil {
				return err
			}
		}
	}
	for i := range c.ranks {
		r := &c.ranks[i]
		slices.SortFunc(r.files, func(a, b stepFile) int { return a.step - b.step })
		for j := 1; j < len(r.files); j++ {
			if a, b := r.files[j-1], r.files[j]; a.step == b.step || a.step == everyStep {
				return fmt.Errorf("%s beside %s: must be one of them", a.name, b.name)
			}
		}
		if step, lacks := r.lacks(); lacks && c.closed {
			return fmt.Errorf("%s is missing: run.json lists steps %s of rank %d", FileName(r.rank, step), r.steps, r.rank)
		}
	}
	return nil
}

func (c *contents) add(name, rankText, stepText string) error {
	rank, err := strconv.Atoi(rankText)
	step, base := everyStep, fmt.Sprintf("rank%05d.jsonl", rank)
	if stepText != "" && err == nil {
		step, err = strconv.Atoi(stepText)
		base = FileName(rank, step)
	}
	if err != nil || strings.TrimSuffix(name, ".zst") != base {
		return fmt.Errorf("%s: must be named as rank00000_iter000001.jsonl or rank00000.jsonl, with no more zeros than that", name)
	}
	i, ok := slices.BinarySearchFunc(c.ranks, rank, func(r rankFiles, rank int) int { return r.rank - rank })
	switch {
	case !ok:
		return fmt.Errorf("%s: run.json does not list rank %d", name, rank)
	case step != everyStep && (len(c.ranks[i].steps) == 0 || !c.ranks[i].steps.Has(step)):
		return fmt.Errorf("%s: run.json does not list step %d of rank %d", name, step, rank)
	}
	c.ranks[i].files = append(c.ranks[i].files, stepFile{step, name})
	return nil
}

// lacks is the first step of which there is no file, if there is such a step.
func (r *rankFiles) lacks() (step int, lacks bool) {
	if len(r.files) == 1 && r.files[0].step == everyStep {
		return 0, false
	}
	i := 0
	for _, span := range r.steps {
		for step := span.Lo; step <= span.Hi; step++ {
			if i == len(r.files) || r.files[i].step != step {
				return step, true
			}
			i++
		}
	}
	return 0, false
}

// read reads the rank's files, each of which must follow the one before. The last of a trace that is not closed may be cut.
func (r *rankFiles) read(dir string, closed bool) ([]Record, error) {
	var all []Record
	for i, f := range r.files {
		path := filepath.Join(dir, f.name)
		records, end, err := readFile(path)
		if errors.Is(err, ErrTruncated) && !closed && i == len(r.files)-1 {
			break
		}
		if err == nil {
			err = r.follows(f, end)
		}
		if n := len(all); err == nil && n > 0 && len(records) > 0 && records[0].Seq <= all[n-1].Seq {
			err = fmt.Errorf("begins with seq %d, the file before it ends with %d", records[0].Seq, all[n-1].Seq)
		}
		if err == nil && closed && f.step == everyStep {
			err = r.holds(records)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r.last, all = end.Digest, append(all, records...)
		if r.whole = f.step; f.step == everyStep && len(records) > 0 {
			r.whole = records[len(records)-1].Iteration
		}
	}
	return all, nil
}

// readFile verifies a file and then reads its records.
func readFile(path string) (records []Record, end End, err error) {
	f, err := open(path)
	if err != nil {
		return nil, end, files.Reason(err)
	}
	end, err = Verify(f)
	if err = cmp.Or(err, f.Close()); err != nil {
		return nil, end, err
	}
	if f, err = open(path); err != nil {
		return nil, end, files.Reason(err)
	}
	defer f.Close()
	records, err = parse(f, end)
	return records, end, err
}

// follows holds an end record against the file's name and the file before it.
func (r *rankFiles) follows(f stepFile, end End) error {
	switch {
	case end.Rank != r.rank:
		return fmt.Errorf("is of rank %d: it stands under another's name", end.Rank)
	case f.step == everyStep && end.Iteration != nil:
		return fmt.Errorf("is of iteration %d alone: it stands under another's name", *end.Iteration)
	case f.step != everyStep && end.Iteration == nil:
		return errors.New("is of all iterations: it stands under another's name")
	case f.step != everyStep && *end.Iteration != f.step:
		return fmt.Errorf("is of iteration %d: it stands under another's name", *end.Iteration)
	case end.Previous != r.last:
		return errors.New("does not follow the file before it: one of them is of another run, or one between them is missing")
	}
	return nil
}

// holds compares the steps of a file of all iterations with what run.json lists.
func (r *rankFiles) holds(records []Record) error {
	var steps []int
	for _, rec := range records {
		steps = append(steps, rec.Iteration)
	}
	want := nothing
	if len(r.steps) > 0 {
		want = r.steps.String()
	}
	if is := textOf(steps); is != want {
		return fmt.Errorf("holds steps %s, run.json lists %s", is, want)
	}
	return nil
}

// ends is what Run.Ends must be.
func (c *contents) ends() string {
	var text strings.Builder
	for _, r := range c.ranks {
		text.WriteString(r.last)
	}
	return hashOf([]byte(text.String()))
}

// whole is the last step that every rank has whole; −1: none is.
func (c *contents) whole() int {
	whole := math.MaxInt
	for _, r := range c.ranks {
		whole = min(whole, r.whole)
	}
	return whole
}
