package run

import (
	"fmt"
	"slices"
	"time"

	"firstbit/device"
	"firstbit/parallel"
)

// Difference is an output in which a reproduction has other bits.
type Difference struct {
	Rank    int    `json:"rank"`
	Output  string `json:"output"`
	Element int    `json:"element"` // the first
	Want    string `json:"want"`
	Got     string `json:"got"`
	Count   int    `json:"count"`
	Of      int    `json:"of"`
}

// Rerun runs an extracted Call by itself and lists the outputs that have other bits than were kept. Its operands are put in the place of those
// that the first step of a new run of the configuration has there.
func (x *Extracted) Rerun() ([]Difference, error) {
	calls, err := x.runAgain(x.Ranks[0].Plan, false) // as it ran, whatever chose it
	if err != nil {
		return nil, err
	}
	differences := []Difference{}
	for _, c := range calls {
		differences = append(differences, c.differences()...)
	}
	return differences, nil
}

// runAgain runs the Call on every rank that has it by a plan, several times if it is to be timed.
func (x *Extracted) runAgain(plan string, timed bool) ([]*rerun, error) {
	s := Spec{Config: x.Config, Recipe: x.Recipe, Plans: x.Plans, Until: 1}
	var err error
	if s.Layout, err = parallel.ParseLayout(x.Layout); err != nil {
		return nil, err
	}
	var ok bool
	if s.Schedule, ok = device.ParseSchedule(x.Schedule); !ok {
		return nil, fmt.Errorf("schedule: %q: must be a seed", x.Schedule)
	}
	var list []*rerun
	calls := map[int]*rerun{}
	for i := range x.Ranks {
		c, err := x.Ranks[i].prepare(x.Site)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", x.Ranks[i].Rank, err)
		}
		c.timed = timed
		calls[x.Ranks[i].Rank] = c
		list = append(list, c)
	}
	if plan != "" {
		s.Plans = append(slices.Clone(s.Plans), x.Site.Path+" "+plan)
	}
	s.Watch = func(r int) device.Middleware { return calls[r].middleware }
	j := &job{Spec: &s, given: x.Site.Path}
	if _, err := j.run(); err != nil {
		return nil, err
	}
	for _, c := range list {
		if c.err != nil {
			return nil, fmt.Errorf("rank %d: %w", c.of.Rank, c.err)
		}
		if !c.ran {
			return nil, fmt.Errorf("%s: does not run in %s of step 1 of this configuration", x.Site.Path, x.Site.Phase)
		}
	}
	return list, nil
}

// rerun is a rank's Call that runs again.
type rerun struct {
	of      *ExtractedCall
	at      Site
	in, out []*device.Tensor
	want    []*device.Tensor
	ran     bool
	err     error

	timed  bool
	took   time.Duration  // the shortest of the runs that were timed
	leaves map[string]int // of every sum, the most that it added
	fused  map[string]int // of every sum, how many products a tensor core adds at once
}

func (c *ExtractedCall) prepare(at Site) (*rerun, error) {
	r := &rerun{of: c, at: at}
	byName := map[string]*device.Tensor{}
	for i := range c.In {
		t, err := c.In[i].Tensor()
		if err != nil {
			return nil, err
		}
		r.in, byName[c.In[i].Name] = append(r.in, t), t
	}
	for i := range c.Out {
		want, err := c.Out[i].Tensor()
		if err != nil {
			return nil, err
		}
		out := byName[c.Out[i].Update]
		if out == nil {
			out = device.NewTensor(want.Format, want.Shape()...)
		}
		r.want, r.out = append(r.want, want), append(r.out, out)
	}
	return r, nil
}

// middleware runs the kept operands through the Call once, and then the run's own, so that it goes on.
func (r *rerun) middleware(next device.Runner) device.Runner {
	return func(c *device.Call) {
		if r == nil || r.ran || r.err != nil || c.Kind == device.Module || c.ID.Path != r.at.Path || c.ID.Phase.String() != r.at.Phase || c.ID.Micro != r.at.Micro || c.ID.Step > 1 {
			next(c)
			return
		}
		if len(c.In) != len(r.in) || len(c.Out) != len(r.out) {
			r.err = fmt.Errorf("%s reads %d and writes %d tensors here: must be %d and %d", r.at.Path, len(c.In), len(c.Out), len(r.in), len(r.out))
			next(c)
			return
		}
		scalars, id := c.Scalars, c.ID
		c.Scalars, c.ID.Step = r.of.Scalars, r.at.Step
		put := r.swap
		if r.fits(c) {
			put = r.fill
		}
		back := put(c)
		r.leaves, r.fused = map[string]int{}, map[string]int{}
		c.Leaves = func(s device.Summed) {
			r.leaves[s.Name], r.fused[s.Name] = max(r.leaves[s.Name], s.N), s.AtOnce
		}
		r.run(next, c)
		c.Leaves = nil
		r.ran = true
		back()
		c.Scalars, c.ID = scalars, id
		next(c)
	}
}

// timings is how often a Call is run to be timed; one that updates something is run once.
const timings = 5

// run runs the Call.
func (r *rerun) run(next device.Runner, c *device.Call) {
	again := 1
	if r.timed && !slices.ContainsFunc(r.of.Out, func(x ExtractedTensor) bool { return x.Update != "" }) {
		again = timings
	}
	for range again {
		begun := time.Now()
		next(c)
		if took := time.Since(begun); r.took == 0 || took < r.took {
			r.took = took
		}
	}
}

// fits tells whether the Call's own tensors can hold the kept operands.
func (r *rerun) fits(c *device.Call) bool {
	for i, t := range r.in {
		if c.In[i].Format != t.Format || c.In[i].Len() != t.Len() {
			return false
		}
	}
	for i, t := range r.out {
		if c.Out[i].Format != t.Format || c.Out[i].Len() != t.Len() {
			return false
		}
	}
	return true
}

// fill writes the kept operands into the Call's own tensors: some Calls know these by more than their arguments, such as the memory in which
// the gradients of a bucket lie.
func (r *rerun) fill(c *device.Call) (back func()) {
	type held struct{ t, was *device.Tensor }
	var all []held
	for _, args := range [][]device.Arg{c.In, c.Out} {
		for _, a := range args {
			was := device.NewTensor(a.Format, a.Len())
			was.CopyAt(0, a.Tensor)
			all = append(all, held{a.Tensor, was})
		}
	}
	for i, t := range r.in {
		c.In[i].CopyAt(0, t)
	}
	return func() {
		for i := range r.out {
			r.out[i].CopyAt(0, c.Out[i].Tensor)
		}
		for _, h := range slices.Backward(all) {
			h.t.CopyAt(0, h.was)
		}
	}
}

// swap puts the kept operands in the place of the Call's own, which may be of other shapes.
func (r *rerun) swap(c *device.Call) (back func()) {
	in, out := slices.Clone(c.In), slices.Clone(c.Out)
	for i := range r.in {
		c.In[i].Tensor = r.in[i]
	}
	for i := range r.out {
		c.Out[i].Tensor = r.out[i]
	}
	return func() {
		copy(c.In, in)
		copy(c.Out, out)
	}
}

func (r *rerun) differences() (all []Difference) {
	for i, want := range r.want {
		d := Difference{Rank: r.of.Rank, Output: r.of.Out[i].Name, Of: want.Len()}
		for e := range want.Len() {
			if w, g := want.Bits(e), r.out[i].Bits(e); w != g {
				if d.Count++; d.Count == 1 {
					d.Element, d.Want, d.Got = e, w, g
				}
			}
		}
		if d.Count > 0 {
			all = append(all, d)
		}
	}
	return all
}
