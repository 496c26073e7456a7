package diff

import (
	"fmt"
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
	case "restore", "outside-window":
		return "state", nil
	case "memory":
		return "memory", nil
	case "origin":
		if a != nil && b != nil {
			return originClass(a, b, differences, oneSchedule)
		}
	}
	return "", nil
}

func originClass(a, b *trace.Record, differences []Field, oneSchedule bool) (string, []string) {
	for i := range a.In {
		if i < len(b.In) && a.In[i].Dtype != b.In[i].Dtype {
			return "format", []string{"dtypes differ: " + a.In[i].Dtype + " and " + b.In[i].Dtype}
		}
	}
	switch {
	case a.Library != b.Library:
		return "library", []string{"library releases differ: " + a.Library + " and " + b.Library}
	case a.Plan != b.Plan && strings.Contains(a.Plan, "tie="):
		return "tie", []string{fmt.Sprintf("plans differ in how they break ties: %q and %q", a.Plan, b.Plan)}
	case a.Plan != b.Plan:
		return "tuner", []string{fmt.Sprintf("plans differ: %q and %q", a.Plan, b.Plan)}
	case depends(a.Plan) && !oneSchedule: // under one schedule everything arrives alike
		return "arrival", []string{"the plan depends on arrival: " + a.Plan}
	}
	for _, d := range differences {
		if strings.HasPrefix(d.Field, "config.") || d.Field == "seed" {
			return "state", []string{"the configurations differ: " + d.Field}
		}
	}
	return "hardware", []string{"same inputs, same plan, same library: nothing the software chose differs"}
}

// depends tells whether a plan's bits depend on arrival.
func depends(text string) bool {
	p, err := reduce.ParsePlan(text)
	return err == nil && p.Varies()
}
