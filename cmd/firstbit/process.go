package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
	"firstbit/verify"
)

// inNewProcess runs this program's train. The process ends with the context.
func inNewProcess(ctx context.Context) verify.Runner {
	return func(s run.Spec, procs int) ([]train.Result, error) { return trainInProcess(ctx, s, procs) }
}

func trainInProcess(ctx context.Context, s run.Spec, procs int) ([]train.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "firstbit-verify-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	text, err := json.Marshal(s.Config)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, text, 0o666); err != nil {
		return nil, err
	}
	args := []string{"train", "--json", "--config", config, "--layout", s.Layout.String(), "--schedule", s.Schedule.String()}
	if s.Recipe != "" {
		args = append(args, "--recipe", s.Recipe)
	}
	if s.Save.Dir != "" {
		args = append(args, "--save", s.Save.Dir, "--save-every", fmt.Sprint(s.Save.Every))
	}
	if s.Resume != "" {
		args = append(args, "--resume", s.Resume)
	}
	if t := s.Trace; t.Level > trace.Off {
		args = append(args, "--trace", t.Dir, "--level", t.Level.String(), "--trace-steps", t.Steps.String())
	}
	for _, f := range s.Faults {
		args = append(args, "--inject", f)
	}
	process := exec.CommandContext(ctx, self, args...)
	process.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", procs))
	var said strings.Builder
	process.Stderr = &said
	out, err := process.Output()
	if ctx.Err() != nil {
		return nil, &run.Interrupted{}
	}
	if err != nil {
		return nil, fmt.Errorf("a new process: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return stepsOf(out)
}

// stepsOf reads the steps that train printed, with metrics in order of their names.
func stepsOf(out []byte) ([]train.Result, error) {
	var printed struct {
		Steps []stepJSON `json:"steps"`
	}
	if err := json.Unmarshal(out, &printed); err != nil {
		return nil, fmt.Errorf("a new process: %w", err)
	}
	var steps []train.Result
	for _, s := range printed.Steps {
		r := train.Result{Step: s.Step, State: s.State}
		for name, m := range s.Metrics { // sorted below
			r.Metrics = append(r.Metrics, train.Metric{Name: name, Bits: m.Bits})
		}
		slices.SortFunc(r.Metrics, func(a, b train.Metric) int { return strings.Compare(a.Name, b.Name) })
		steps = append(steps, r)
	}
	return steps, nil
}
