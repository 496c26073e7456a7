package diff

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/reduce"
	"firstbit/trace"
)

// class says what kind of choice differed.
func class(verdict string, a, b *trace.Record, differences []Field, oneSchedule bool) (string, []string) {
	switch verdict {
	case "missing":
		return "control", nil
	case "artifact":
		return "probe", nil
	case "restore":
		return "state", []string{"what a restore brings is state, whatever the order of sums"}
	case "outside-window":
		return "state", nil
	case "memory":
		return "memory", []string{"what was read is not what was written, in the same run: no Call made the difference"}
	case "origin":
		if a == nil || b == nil {
			return "state", []string{"a random stream is state"}
		}
		if a != nil && b != nil {
			return originClass(a, b, differences, oneSchedule)
		}
	}
	return "", nil
}

func originClass(a, b *trace.Record, differences []Field, oneSchedule bool) (string, []string) {
	for i := range a.In {
		if i < len(b.In) && a.In[i].Name == b.In[i].Name && a.In[i].Dtype != b.In[i].Dtype {
			return "format", []string{"dtypes differ: " + a.In[i].Dtype + " and " + b.In[i].Dtype}
		}
	}
	for i := range a.Out {
		if i < len(b.Out) && a.Out[i].Name == b.Out[i].Name && a.Out[i].Dtype != b.Out[i].Dtype {
			return "format", []string{"what it wrote has other dtypes: " + a.Out[i].Dtype + " and " + b.Out[i].Dtype}
		}
	}
	if name := unshared(a.Out, b.Out); name != "" {
		return "control", []string{"one run alone writes " + name}
	}
	if regrouped(a, b) || a.Kind == "collective" && a.Kernel != b.Kernel { // a sum for all members, and one of which each has a part
		for _, d := range differences {
			if clusterField(d) {
				return "topology", []string{"the configurations group what ranks exchange otherwise: " + d.Field + " is " + d.A + " and " + d.B}
			}
		}
	}
	switch {
	case a.Library != b.Library:
		return "library", []string{"library releases differ: " + a.Library + " and " + b.Library}
	case a.Plan != b.Plan:
		class, why := planClass(a.Plan, b.Plan)
		return class, append(why, repeats(a.Plan, b.Plan)...)
	case depends(a.Plan) && !oneSchedule: // under one schedule everything arrives alike
		return "arrival", []string{"the plan depends on arrival: " + a.Plan}
	}
	if a.Launches != b.Launches {
		class, why := launches(a)
		return class, []string{fmt.Sprintf("its kernel ran %d and %d times: %s", max(1, a.Launches), max(1, b.Launches), why)}
	}
	if movesStream(a) != movesStream(b) && drewOtherwise(a, b) {
		return "state", []string{"one of the recomputations moves its stream on, which draws from a copy of its state alone"}
	}
	if in := scalarDiffers(a, b); in != nil {
		return "state", []string{"scalar " + in.Name + " is no tensor's: the configuration or a counter sets it" + named(differences, in.Name)}
	}
	if a.Library == "" || b.Library == "" {
		return "", []string{"a trace does not record which library ran: a choice of software is not ruled out"}
	}
	return "hardware", []string{"same inputs, same plan, same library: nothing the software chose differs"}
}

// launches is the class of a Call whose kernel ran more than once. What it updates it has updated again, which is how a count or a gradient comes to
// be there twice; else whoever tunes it timed it on what it writes.
func launches(r *trace.Record) (class, why string) {
	for _, out := range r.Out {
		if hasName(r.In, out.Name) {
			return "state", "it updates " + out.Name + ", and did so again"
		}
	}
	return "tuner", "it was timed on its output"
}

// unshared is the name of an output that one of two records has and the other has not; empty: they have the same names.
func unshared(a, b []trace.Sig) string {
	for _, side := range [][2][]trace.Sig{{a, b}, {b, a}} {
		for _, g := range side[0] {
			if !slices.ContainsFunc(side[1], func(h trace.Sig) bool { return h.Name == g.Name }) {
				return g.Name
			}
		}
	}
	return ""
}

// movesStream tells whether a draw of a recomputation leaves its stream in another state than it found it.
func movesStream(rec *trace.Record) bool {
	if rec.Kind != "draw" || rec.Phase != "rec" {
		return false
	}
	for _, in := range rec.In {
		for _, out := range rec.Out {
			if in.Name == "stream" && out.Name == "stream" && in.Digest != out.Digest {
				return true
			}
		}
	}
	return false
}

// drewOtherwise tells whether what was drawn differs too: a stream that alone does was changed, and nobody drew from it.
func drewOtherwise(a, b *trace.Record) bool {
	return !sigsEqual(lacking(a.Out, "stream"), lacking(b.Out, "stream"))
}

// scalarDiffers is the first scalar input that differs; nil: none does. Only what a Call reads or plans explains its bits, so no other field
// of a configuration does.
func scalarDiffers(a, b *trace.Record) *trace.Sig {
	for i := range a.In {
		if in := &a.In[i]; in.Scalar && (i >= len(b.In) || !sigEqual(in, &b.In[i])) {
			return in
		}
	}
	return nil
}

// named says which field of the configuration has a scalar's name and differs.
func named(differences []Field, scalar string) string {
	if d := fieldOf(differences, scalar); d != nil {
		return fmt.Sprintf("; %s is %s and %s", d.Field, d.A, d.B)
	}
	return ""
}

func fieldOf(differences []Field, scalar string) *Field {
	for i := range differences {
		if d := &differences[i]; d.Field[strings.LastIndexByte(d.Field, '.')+1:] == scalar {
			return d
		}
	}
	return nil
}

// repeats says which of two runs would not repeat itself: its plan depends on arrival, and the other's does not.
func repeats(a, b string) []string {
	switch va, vb := depends(a), depends(b); {
	case va && vb:
		return []string{"neither run repeats itself: both plans depend on arrival"}
	case va:
		return []string{"run A does not repeat itself: its plan depends on arrival"}
	case vb:
		return []string{"run B does not repeat itself: its plan depends on arrival"}
	}
	return nil
}

// differing says in what plans differ, by the class of that.
var differing = map[reduce.Class]string{
	reduce.Tuner:    "plans differ",
	reduce.Topology: "plans differ in where the ranks stand, in the machine, or in what else there is",
	reduce.Tie:      "plans differ in how they break ties",
}

// planClass goes by the items in which plans differ. A plan that cannot be read is a tuner's: a trace may hold any.
func planClass(a, b string) (string, []string) {
	class := reduce.Tuner
	p, errA := reduce.ParsePlan(a)
	q, errB := reduce.ParsePlan(b)
	if errA == nil && errB == nil {
		class = reduce.Difference(p, q)
	}
	return class.String(), []string{fmt.Sprintf("%s: %q and %q", differing[class], a, b)}
}

// depends tells whether a plan's bits depend on arrival.
func depends(text string) bool {
	p, err := reduce.ParsePlan(text)
	return err == nil && p.Varies()
}
