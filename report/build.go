package report

import (
	"sync"

	"firstbit/device"
	"firstbit/diff"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// Pair is two runs of which a page is made.
type Pair struct {
	Specs [2]run.Spec
	Runs  [2]string
	// Trace runs a side as a localiser asks for it, and Localize finds where the pair parts.
	Trace    diff.RunFunc
	Localize func(diff.RunFunc, func(trace.Level)) (*diff.Report, error)
	Command  string
	// Each hears of every step of the whole runs, of both sides at once; nil: nobody does.
	Each func(side, step int)
}

// Stages is how many times Page reports.
const Stages = 2 + int(trace.Kernel)

// Page runs the pair: once whole, watching every Call, and then as often as the localiser asks. stage sees the page as it grows: after the runs
// have ended, and after each level.
func (p *Pair) Page(stage func(what string, page *Page)) (*Page, error) {
	page := &Page{Runs: p.Runs, Command: p.Command, Steps: []Step{}, Calls: []Call{}, Chain: []diff.Parted{}, Missing: []string{}}
	w, err := watch(p.Specs, trace.Op, p.Each)
	if err != nil {
		return nil, err
	}
	page.Steps, page.Routes = stepsOf(w.out[0].Steps, w.out[1].Steps), routesOf(w.out[0].Routes, w.out[1].Routes)
	if page.Spread, err = diff.SpreadOf(w.traces[0], w.traces[1]); err != nil {
		return nil, err
	}
	if err := page.shallow(w); err != nil {
		return nil, err
	}
	stage("runs", page)
	r, err := p.Localize(p.Trace, func(l trace.Level) { stage(l.String(), page) })
	if err != nil {
		return nil, err
	}
	page.found(r, w.traces, &w.leaves, p.Specs[0].Config.Cluster.RanksPerNode)
	return page, nil
}

// shallow is what the runs alone show.
func (page *Page) shallow(w *watched) error {
	step, rank := 1, w.traces[0].Ranks[0].Rank
	if first := page.Spread.First(); first != nil {
		step, rank = first.Step, first.Rank
	}
	page.Calls = callsOf(w.traces[0], w.traces[1], step, rank, &w.leaves)
	chain, err := diff.Chain(w.traces[0], w.traces[1], "loss")
	page.Chain = append(page.Chain, chain...)
	return err
}

// found adds the verdict.
func (page *Page) found(r *diff.Report, traces [2]*trace.Trace, known *leaves, node int) {
	page.Diff, page.Sentence, page.Bytes = r, say(r), r.Bytes
	if r.First == nil {
		return
	}
	page.Calls = callsOf(traces[0], traces[1], r.First.Iteration, r.First.Rank, known)
	page.Sum = sumOf(r, known, node)
}

// watched is a pair that ran to its end, every Call in sight.
type watched struct {
	specs  [2]run.Spec
	out    [2]*run.Outcome
	traces [2]*trace.Trace
	rank0  [2][]train.Result // as its trace has them: with its own state alone
	leaves leaves
}

func watch(specs [2]run.Spec, level trace.Level, each func(side, step int)) (*watched, error) {
	w := &watched{specs: specs}
	err := diff.Both(func(side int) (err error) {
		s := specs[side]
		s.Save, s.Export, s.Digest, s.Load, s.Routes = run.Save{}, "", true, false, true
		if level > trace.Off {
			w.traces[side] = &trace.Trace{}
			s.Trace = trace.Options{Level: level, Into: w.traces[side]}
		}
		if side == 0 {
			s.Watch = w.leaves.watch
		}
		s.Each = func(r train.Result) error {
			w.rank0[side] = append(w.rank0[side], r)
			if each != nil {
				each(side, r.Step)
			}
			return nil
		}
		if w.out[side], err = run.Run(s); err == nil {
			err = w.out[side].Missed
		}
		return err
	})
	return w, err
}

// leaves are how many values the sums of Calls add: the most, over steps and ranks.
type leaves struct {
	mu    sync.Mutex
	sums  map[string]map[string]int // by phase and path, by sum
	fused map[string]map[string]int // and how many products a tensor core adds at once
}

// watch is a middleware that asks each Call.
func (l *leaves) watch(int) device.Middleware {
	return func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if c.Kind == device.Module {
				next(c)
				return
			}
			sums, fused := map[string]int{}, map[string]int{}
			c.Leaves = func(s device.Summed) { sums[s.Name], fused[s.Name] = max(sums[s.Name], s.N), s.AtOnce }
			next(c)
			c.Leaves = nil
			if len(sums) > 0 {
				l.add(c.ID.Phase.String()+" "+c.ID.Path, sums, fused)
			}
		}
	}
}

func (l *leaves) add(call string, sums, fused map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sums == nil {
		l.sums, l.fused = map[string]map[string]int{}, map[string]map[string]int{}
	}
	if l.sums[call] == nil {
		l.sums[call], l.fused[call] = map[string]int{}, map[string]int{}
	}
	for sum, n := range sums { // the most of all: the order reaches nothing
		l.sums[call][sum], l.fused[call][sum] = max(l.sums[call][sum], n), max(l.fused[call][sum], fused[sum])
	}
}

func (l *leaves) of(phase, path string) map[string]int { return l.sums[phase+" "+path] }

func (l *leaves) fusedBy(phase, path, sum string) int { return l.fused[phase+" "+path][sum] }
