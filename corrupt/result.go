package corrupt

import "fmt"

// The finders.
const (
	rerunSuspicious = "rerun of suspicious steps"
	rerunByLoss     = "rerun of every step, by loss"
	rerunByState    = "rerun of every step, by state"
	rerunDigests    = "rerun of every step, digests"
	replicas        = "replicas, digests of one run"
	secondRun       = "second run, digests of both"
)

// Finders lists them, the cheapest first.
var Finders = []string{rerunSuspicious, replicas, secondRun, rerunByLoss, rerunByState, rerunDigests}

// steps that are run for each that is trained, where nothing is found.
var costs = map[string]float64{rerunSuspicious: 1, replicas: 1, rerunByLoss: 3, rerunByState: 3, rerunDigests: 3, secondRun: 2}

// Result is what the finders came to.
type Result struct {
	Seed      uint64   `json:"seed"`
	N         int      `json:"n"`
	Transient int      `json:"transient"`
	Lasting   int      `json:"lasting"`
	Masked    int      `json:"masked"`   // that no metric and no state shows
	Harmless  int      `json:"harmless"` // faults that left the same bits, and were drawn again
	Loud      int      `json:"loud"`     // and those that ended the run
	Finders   []Finder `json:"finders"`
	Missed    []Missed `json:"missed"`
}

// Finder is what one came to.
type Finder struct {
	Name      string         `json:"name"`
	Cost      float64        `json:"cost"` // steps that are run for each that is trained
	Transient int            `json:"transient"`
	Lasting   int            `json:"lasting"`
	Verdict   int            `json:"verdict"` // of those found, how many it rightly calls transient or persistent
	Named     int            `json:"named"`   // for how many it names a Call
	Rank      int            `json:"rank"`    // of the right rank
	Call      int            `json:"call"`    // the right one
	Replays   float64        `json:"replays"` // in each place, where it bisects
	Part      float64        `json:"part"`    // of steps that these are, together, in each place
	Missed    map[string]int `json:"missed"`  // by the phase of the fault
}

// Missed is a fault that a second run does not find, or of which it names another Call.
type Missed struct {
	Fault
	Text   string `json:"text"`
	Layout string `json:"layout"`
	By     string `json:"by"`
	Said   string `json:"said"`
}

func collect(o Options, tried []try) (*Result, error) {
	r := &Result{Seed: o.Seed, N: o.N, Missed: []Missed{}}
	for _, name := range Finders {
		r.Finders = append(r.Finders, Finder{Name: name, Cost: costs[name], Missed: map[string]int{}})
	}
	for i := range tried {
		t := &tried[i]
		if t.err != nil {
			return nil, t.err
		}
		r.Harmless += t.harmless
		r.Loud += t.loud
		if t.masked {
			r.Masked++
		}
		if t.Lasting {
			r.Lasting++
		} else {
			r.Transient++
		}
		for j, name := range Finders {
			r.Finders[j].add(t, t.found[name])
			if f := t.found[name]; f.named && f.site != t.Site || name == secondRun && !f.named {
				r.Missed = append(r.Missed, Missed{t.Fault, t.during(steps)[0], t.layout, name, fmt.Sprintf("rank %d %s %s", f.site.Rank, f.site.Phase, f.site.Path)})
			}
		}
	}
	for i := range r.Finders {
		if f := &r.Finders[i]; f.Replays > 0 {
			f.Replays /= float64(f.Named)
			f.Part /= float64(f.Named)
		}
	}
	return r, nil
}

func (f *Finder) add(t *try, found finding) {
	switch {
	case !found.found:
		f.Missed[t.Site.Phase]++
		return
	case t.Lasting:
		f.Lasting++
	default:
		f.Transient++
	}
	if found.verdict == Transient && !t.Lasting || found.verdict == Persistent && t.Lasting {
		f.Verdict++
	}
	if !found.named {
		return
	}
	f.Named++
	f.Replays += float64(found.replays)
	f.Part += found.part
	if found.site.Rank == t.Site.Rank {
		f.Rank++
	}
	if found.site == t.Site {
		f.Call++
	}
}
