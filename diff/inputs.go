package diff

import (
	"fmt"

	"firstbit/state"
	"firstbit/trace"
)

// inputsDiffer follows the first input that differs to its producer.
func (p *pair) inputsDiffer(a, b *trace.Record) (string, []string) {
	for i := range a.In {
		if i < len(b.In) && sigEqual(&a.In[i], &b.In[i]) {
			continue
		}
		in := &a.In[i]
		if in.Scalar {
			return p.scalar(in)
		}
		if p.resumed && (in.From == nil || p.producer(*in.From) < 0 && p.level >= trace.Op) {
			return "restore", []string{fmt.Sprintf("input %s was written before the checkpoint, and differs after the restore", in.Name)}
		}
		if in.From == nil {
			return "blind-spot", []string{fmt.Sprintf("input %s has no recorded producer: an uncaptured kernel wrote it", in.Name)}
		}
		producer := p.producer(*in.From)
		switch {
		case p.unseen(producer, a):
			return "outside-window", []string{fmt.Sprintf("input %s may have been written in a step that was not compared", in.Name)}
		case producer >= 0:
			return "memory", []string{fmt.Sprintf("input %s differs, but its producer %q wrote the same bits in both runs: memory changed in between", in.Name, *in.From)}
		case p.level >= trace.Op && p.masterShown(a, in):
			return "memory", []string{fmt.Sprintf("input %s differs, and the weight that it is a piece of was equal where the window starts: memory changed since", in.Name)}
		case p.level >= trace.Op && len(p.byPath[phaseAndPath(*in.From)]) > 0: // it runs after the reader: in the step before the first
			return "outside-window", []string{fmt.Sprintf("input %s was written by %q before the first step that was compared", in.Name, *in.From)}
		case p.level < trace.Op:
			return "narrow", []string{fmt.Sprintf("input %s comes from %q, below the %s level", in.Name, *in.From, p.level)}
		}
		return "blind-spot", []string{fmt.Sprintf("input %s comes from %q, which ought to be traced at this level and is not", in.Name, *in.From)}
	}
	return "missing", []string{"the runs read different numbers of inputs"}
}

// masterShown tells whether an update reads a piece of a weight, which is its own master, and a state record shows the weight alike in both runs.
func (p *pair) masterShown(a *trace.Record, in *trace.Sig) bool {
	if a.Kind != "optim" || in.Name != "master" {
		return false
	}
	for i, j := range p.match {
		s := &p.a[i]
		if s.Kind == "state" && s.Role == state.Weight && j >= 0 && len(s.Out) == 1 && s.Iteration == a.Iteration && trace.Path("optim", s.Of) == trace.Path(a.Scope, a.Name) {
			return s.Out[0].Dtype == in.Dtype && !differs(s, &p.b[j])
		}
	}
	return false
}

// scalar judges a number that differs: after a restore, what it is counted from was restored, unless the configuration says otherwise.
func (p *pair) scalar(in *trace.Sig) (string, []string) {
	if p.resumed && fieldOf(p.differences, in.Name) == nil {
		return "restore", []string{fmt.Sprintf("scalar %s differs: one run continued from a checkpoint, and counts from what was restored", in.Name)}
	}
	return "origin", []string{fmt.Sprintf("scalar %s differs: it is set by the configuration or the loop, not by a Call", in.Name)}
}

// phaseAndPath is the name of a producer without that of its output.
func phaseAndPath(from string) string {
	phase, path := producerOf(from)
	return phase + " " + path
}
