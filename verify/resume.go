package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/diff"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// Runner runs a Spec on so many processors and returns its steps.
type Runner func(s run.Spec, procs int) ([]train.Result, error)

// InProcess is a Runner in this process.
func InProcess(s run.Spec, procs int) ([]train.Result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	o, err := run.Run(s)
	if err != nil {
		return nil, err
	}
	return o.Steps, nil
}

const resumeSteps = 6

// resumeCell is a run that is stopped after every step.
type resumeCell struct {
	name string
	run.Spec
}

// The cells of Resume: every layout in every precision, of models that between them have every kind of state.
var (
	resumeLayouts    = []string{"dp=1", "dp=4", "tp=2,pp=2,ep=2", "pp=2,vpp=2"}
	resumePrecisions = []string{"fp32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4"}
)

func resumeCells() (cells []resumeCell) {
	noise := train.Tiny()
	noise.Model.Pattern, noise.Model.Dropout, noise.Model.MoE.Jitter, noise.Model.Recompute = "M*E-E", 0.1, 0.05, true
	noise.Micro = 2
	mtp := train.Tiny()
	mtp.Model.MTP.Depths, mtp.Micro = 2, 2
	for _, text := range resumeLayouts {
		l, err := parallel.ParseLayout(text)
		if err != nil {
			panic(err) // the list is ours
		}
		for _, precision := range resumePrecisions {
			for _, m := range []struct {
				name string
				train.Config
			}{{"noise", noise}, {"mtp", mtp}} {
				c := m.Config
				c.Steps, c.Precision = resumeSteps, precision
				if precision == "fp8" && m.name == "noise" {
					c.Quant.Scaling = "delayed" // which has the amaxes of earlier steps for its state
				}
				name := strings.Join([]string{short(l), precision, m.name}, " ")
				if l.DP > 1 && m.name == "mtp" {
					c.Optim.Replicated = true
					name += " replicated"
				}
				if l.PP > 1 && m.name == "mtp" {
					pack(&c)
					name += " packed"
				}
				if precision == "fp16" {
					skip(&c)
					c.Optim.LossScale.Initial *= float64(l.Full().DP) // by which a rank's gradients are smaller
				}
				cells = append(cells, resumeCell{name,
					run.Spec{Config: c, Layout: l, Kept: run.Kept{Digest: true}}})
			}
		}
	}
	return cells
}

// ResumeCells is the number of cells of Resume.
func ResumeCells() int { return len(resumeCells()) }

// Resume runs every cell once to the end, and from each of its checkpoints again, under another schedule and on another number
// of processors. A cell is ok if metrics and every tensor of the state are the same after every later step. The runs that continue
// have the faults. An error of each ends it.
func Resume(runner Runner, faults []string, each func(Cell) error) ([]Cell, error) {
	var cells []Cell
	for _, c := range resumeCells() {
		cell, err := c.verify(runner, faults)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		cells = append(cells, cell)
		if each != nil {
			if err := each(cell); err != nil {
				return nil, err
			}
		}
	}
	return cells, nil
}

func (r resumeCell) verify(runner Runner, faults []string) (Cell, error) {
	cell := Cell{Name: r.name}
	dir, err := os.MkdirTemp("", "firstbit-resume-")
	if err != nil {
		return cell, err
	}
	defer os.RemoveAll(dir)
	whole := filepath.Join(dir, "whole")
	s := r.Spec
	s.Save = run.Save{Dir: whole, Every: 1}
	s.Trace = r.lastStep(dir, "whole-trace")
	want, err := runner(s, runtime.NumCPU())
	if err != nil {
		return cell, err
	}
	cell.Hash = want[len(want)-1].State
	for after := 1; after < r.Config.Steps && cell.Why == nil; after++ {
		s := r.Spec
		s.Faults, s.Schedule = faults, device.Schedule{Seed: uint64(after)}
		s.Resume = filepath.Join(whole, fmt.Sprintf("step%06d", after))
		s.Save = run.Save{Dir: filepath.Join(dir, fmt.Sprint(after)), Every: 1}
		traced := after == r.Config.Steps-1
		if traced {
			s.Trace = r.lastStep(dir, "trace")
		}
		got, err := runner(s, 1+after%3)
		if err != nil {
			return cell, err
		}
		why, err := continues(want[after:], got, whole, s.Save.Dir)
		if err == nil && why == "" && traced {
			why, err = sameTraces(filepath.Join(dir, "whole-trace"), s.Trace.Dir)
		}
		if err != nil {
			return cell, err
		}
		if why != "" {
			why = fmt.Sprintf("stopped after step %d: %s", after, why)
			cell.Why = &why
		}
	}
	cell.OK = cell.Why == nil
	return cell, nil
}

// lastStep has every Call of the last step traced.
func (r resumeCell) lastStep(dir, name string) trace.Options {
	last := r.Config.Steps
	return trace.Options{Dir: filepath.Join(dir, name), Level: trace.Op, Steps: trace.Set{{Lo: last, Hi: last}}}
}

// sameTraces says in which Call two runs that left the same bits read or wrote others; empty: in none. What a Call keeps of before and
// does not say that it reads shows here.
func sameTraces(whole, resumed string) (string, error) {
	a, err := trace.Open(whole)
	if err != nil {
		return "", err
	}
	b, err := trace.Open(resumed)
	if err != nil {
		return "", err
	}
	r, err := diff.Compare(a, b)
	if err != nil || r.Identical {
		return "", err
	}
	return fmt.Sprintf("traces of step %d: %s at %s, %s: %s", r.First.Iteration, r.First.Verdict, r.First.Path(), r.First.Phase, strings.Join(r.Evidence, "; ")), nil
}

// continues says where the steps and checkpoints of a run that was stopped first differ from those of one that was not; empty:
// nowhere.
func continues(want, got []train.Result, whole, resumed string) (string, error) {
	if len(want) != len(got) {
		return fmt.Sprintf("%d steps follow: must be %d", len(got), len(want)), nil
	}
	for i, w := range want {
		if why := differs(w, got[i]); why != "" {
			return fmt.Sprintf("step %d: %s", w.Step, why), nil
		}
		name := fmt.Sprintf("step%06d", w.Step)
		a, err := checkpoint.ReadManifest(filepath.Join(whole, name))
		if err != nil {
			return "", err
		}
		b, err := checkpoint.ReadManifest(filepath.Join(resumed, name))
		if err != nil {
			return "", err
		}
		if why := a.Differ(b); why != "" {
			return fmt.Sprintf("step %d: %s", w.Step, why), nil
		}
	}
	return "", nil
}

func differs(want, got train.Result) string {
	if got.Step != want.Step || len(got.Metrics) != len(want.Metrics) {
		return fmt.Sprintf("is step %d with %d metrics: must have %d", got.Step, len(got.Metrics), len(want.Metrics))
	}
	for i, m := range want.Metrics {
		if got.Metrics[i].Name != m.Name || got.Metrics[i].Bits != m.Bits {
			return fmt.Sprintf("metric %s is %s: must be %s", m.Name, got.Metrics[i].Bits, m.Bits)
		}
	}
	if got.State != want.State {
		return fmt.Sprintf("state %s: must be %s", got.State, want.State)
	}
	return ""
}
