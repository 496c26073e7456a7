package swarm

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/diff"
	"firstbit/trace"
)

// Localiser says of two traces, or of one and nil, where they part and why. It sees no more than that.
type Localiser func(a, b *trace.Trace) (*diff.Report, error)

// Diff is the localiser of this program.
func Diff(a, b *trace.Trace) (*diff.Report, error) {
	if b == nil {
		return diff.Replicas(a)
	}
	return diff.Compare(a, b)
}

// abstentions are verdicts that name no root.
var abstentions = []string{"narrow", "blind-spot", "outside-window", "unresolved", "downstream", "missing"}

// judgement is what a localiser's report came to.
type judgement struct {
	named     bool // it names a root
	located   bool // which is the right one: Call, rank, step, microbatch and phase
	right     bool // and verdict and class are too; or it is right to name none, and says what is missing
	abstained bool
	said      string
}

// judge holds a report against the answers. Without answers there was nothing to find, unless the case is one to be mute about.
func judge(k *kind, r *diff.Report, err error, answers []Answer) judgement {
	if err != nil {
		return judgement{said: "error: " + err.Error()}
	}
	if r.Identical || r.First == nil {
		return judgement{said: "identical", right: len(answers) == 0 && k.mute == nil}
	}
	f := r.First
	j := judgement{said: said(r), abstained: slices.Contains(abstentions, f.Verdict)}
	j.named = !j.abstained
	for _, a := range answers {
		here := a.Name == f.Path() && a.Rank == f.Rank && a.Step == f.Iteration && a.Micro == f.Microbatch && a.Phase == f.Phase
		j.located = j.located || here && j.named
		j.right = j.right || here && a.Verdict == f.Verdict && r.Class != nil && a.Class == *r.Class
	}
	j.right = j.right || slices.Contains(k.mute, f.Verdict) && len(r.Evidence) > 0
	return j
}

func said(r *diff.Report) string {
	f := r.First
	class := "none"
	if r.Class != nil {
		class = *r.Class
	}
	return fmt.Sprintf("%s/%s at %s %s %s, rank %d step %d microbatch %d: %s", f.Verdict, class, f.Phase, f.Kind, f.Path(), f.Rank, f.Iteration, f.Microbatch, strings.Join(r.Evidence, "; "))
}

// String is the answer as reports are printed.
func (a Answer) String() string {
	return fmt.Sprintf("%s/%s at %s %s, rank %d step %d microbatch %d", a.Verdict, a.Class, a.Phase, a.Name, a.Rank, a.Step, a.Micro)
}

// trial is a case that ran, and what was said of it.
type trial struct {
	judgement
	answers  []Answer
	harmless bool // the fault left the same bits
	refused  bool // the fault does not fit its Call, or ends the run
	unseen   bool // bits differ, and by the records none of the Calls of the fault is where they part
	err      error
}

// try runs a case and has it judged.
func (b *bench) try(c *Case, localise Localiser) (t trial) {
	k := kindOf(c.Kind)
	p, err := b.run(c)
	if err != nil {
		if len(c.Faults) == 0 && len(c.Plans) == 0 {
			return trial{err: err}
		}
		return trial{refused: true, err: err}
	}
	l := newLedger(p.a, p.b)
	l.alone = c.Alone
	from := 0
	if c.Saved > 0 && c.Whole { // what comes before, and the restore, one of them has alone
		from = c.Saved + 1
	}
	equal := l.identical(from, len(c.SetB) > 0)
	if t.answers, t.err = b.answers(c, l); t.err != nil {
		return trial{refused: true, err: t.err}
	}
	mustDiffer := c.Distorted != nil && c.Faults == nil
	switch {
	case c.Kind == "clean":
	case equal && !mustDiffer:
		t.harmless = true
	case len(t.answers) == 0 && k.mute == nil:
		t.unseen = true
		return t
	}
	judged := k
	if t.harmless {
		if judged, t.answers = kindOf("clean"), nil; c.Distorted != nil { // there was to be a fault besides
			t.right = true
			return t
		}
	}
	r, err := localised(localise, c, p)
	t.judgement = judge(judged, r, err, t.answers)
	if c.Kind == "clean" && c.Alone && c.Recipe == "fast" && strings.HasPrefix(t.said, "origin/arrival") {
		t.right, t.located = true, true // replicas whose sums arrive each in its own order are none
	}
	return t
}

// answers are all that is right to say of a case.
func (b *bench) answers(c *Case, l *ledger) ([]Answer, error) {
	switch k := kindOf(c.Kind); {
	case len(c.Faults) == 2:
		return b.ofTwo(c, l)
	case k.answers != nil && (len(c.Faults) > 0 || c.Kind == "arrival"):
		return k.answers(c, l), nil
	}
	return nil, nil
}

// localised is what the localiser says of the two traces. That it panics is an error.
func localised(localise Localiser, c *Case, p pair) (r *diff.Report, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("panic: %v", x)
		}
	}()
	if x := c.Distorted; x != nil && x.InB {
		p.b = x.apply(p.b)
	} else if x != nil {
		p.a = x.apply(p.a)
	}
	if c.Alone {
		return localise(p.b, nil)
	}
	return localise(p.a, p.b)
}

// Again is what became of one case that ran again.
type Again struct {
	OK    bool     `json:"ok"`
	Said  string   `json:"said"`
	Right []string `json:"right"`
}

// Again runs a case.
func (c *Case) Again(localise Localiser) (a Again, err error) {
	b := &bench{}
	defer b.close()
	t := b.try(c, localise)
	if t.err != nil {
		return a, t.err
	}
	a = Again{OK: t.right, Said: t.said, Right: []string{}}
	for _, x := range t.answers {
		a.Right = append(a.Right, x.String())
	}
	switch {
	case t.unseen:
		a.Said = "by the records none of the Calls of the fault is where bits part"
	case t.harmless:
		a.Right = append(a.Right, "identical: the fault left the same bits")
	}
	return a, nil
}
