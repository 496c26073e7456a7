// Package play runs what the playground asks for.
package play

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"firstbit/device"
	"firstbit/files"
	"firstbit/parallel"
	"firstbit/report"
	"firstbit/run"
	"firstbit/train"
)

// Setting is a pair of runs: a cause of the catalog, or two runs of one configuration. A link to the playground carries it.
type Setting struct {
	Cause string `json:"cause,omitempty"`

	Preset    string   `json:"preset,omitempty"`
	Precision string   `json:"precision,omitempty"`
	Layout    string   `json:"layout,omitempty"`
	Recipe    string   `json:"recipe,omitempty"`
	Steps     int      `json:"steps,omitempty"` // of a cause, from where its runs begin; 0: all
	Seed      uint64   `json:"seed,omitempty"`
	Set       []string `json:"set,omitempty"`
	Runs      [2]Side  `json:"runs"`
}

// Side is what one run has for itself.
type Side struct {
	Schedule uint64   `json:"schedule,omitempty"`
	Plans    []string `json:"plans,omitempty"`
	Faults   []string `json:"faults,omitempty"`
}

// Bounds of what a browser runs.
const (
	maxSteps = 100
	maxRanks = 16
)

// Run runs a setting and sends what it finds: "step" is each step of the two runs as they go, "page" a
// report.Page as far as the runs alone show it, "stage" what is looked at next, and "done" the whole page.
//
// Errors: what the setting may not be, and what the runs refuse, in one line.
func Run(request []byte, tmp string, send func(kind string, v any)) error {
	var s Setting
	if err := files.JSON(request, &s, false); err != nil {
		return fmt.Errorf("the setting: %w", err)
	}
	dir, err := os.MkdirTemp(tmp, "firstbit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := s.Pair(dir)
	if err != nil {
		return err
	}
	p.Each = func(side, step int) { send("step", [2]int{side, step}) }
	page, err := p.Page(func(what string, page *report.Page) {
		if what == "runs" {
			send("page", page)
		}
		send("stage", what)
	})
	if err == nil {
		send("done", page)
	}
	return err
}

// Pair is the runs of a setting.
func (s *Setting) Pair(dir string) (*report.Pair, error) {
	if s.Cause != "" {
		return report.OfCause(s.Cause, s.Steps, dir)
	}
	p := &run.Pair{Dir: dir}
	var flags [2]string
	for side := range p.Specs {
		spec, err := s.spec(s.Runs[side])
		if err != nil {
			return nil, fmt.Errorf("run %c: %w", 'A'+side, err)
		}
		p.Specs[side], flags[side] = spec, s.flags(s.Runs[side])
	}
	return report.OfFlags(p, flags), nil
}

func (s *Setting) spec(side Side) (run.Spec, error) {
	spec := run.Spec{Schedule: device.Schedule{Seed: side.Schedule}, Recipe: s.Recipe, Plans: side.Plans, Faults: side.Faults, Checks: run.Checks{Strict: true}}
	var err error
	if spec.Config, err = train.Preset(cmp.Or(s.Preset, "tiny")); err != nil {
		return spec, err
	}
	for _, set := range s.Set {
		if strings.HasPrefix(set, "data=") || strings.HasPrefix(set, "weights=") {
			return spec, errors.New("set " + set + ": a browser has no files")
		}
		if err := spec.Config.Set(set); err != nil {
			return spec, err
		}
	}
	c := &spec.Config
	c.Steps, c.Seed, c.Precision = cmp.Or(s.Steps, c.Steps), cmp.Or(s.Seed, c.Seed), cmp.Or(s.Precision, c.Precision)
	if c.Steps > maxSteps {
		return spec, fmt.Errorf("steps %d: must be at most %d here", c.Steps, maxSteps)
	}
	if spec.Layout, err = parallel.ParseLayout(s.Layout); err != nil {
		return spec, err
	}
	if n := spec.Layout.World(); n > maxRanks {
		return spec, fmt.Errorf("layout %s: %d ranks: must be at most %d here", s.Layout, n, maxRanks)
	}
	return spec, spec.Check()
}

// flags are those of train that make a run.
func (s *Setting) flags(side Side) string {
	var words []string
	add := func(flag, value string) {
		if value != "" {
			words = append(words, "--"+flag, word(value))
		}
	}
	number := func(n uint64) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	add("preset", s.Preset)
	add("precision", s.Precision)
	add("layout", s.Layout)
	add("recipe", s.Recipe)
	add("steps", number(uint64(max(s.Steps, 0))))
	add("seed", number(s.Seed))
	for _, set := range s.Set {
		add("set", set)
	}
	add("schedule", number(side.Schedule))
	for _, p := range side.Plans {
		add("plan", p)
	}
	for _, f := range side.Faults {
		add("inject", f)
	}
	return strings.Join(words, " ")
}

// word is a text as one word of a shell.
func word(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,/") == "" {
		return s
	}
	return report.Quoted(s)
}
