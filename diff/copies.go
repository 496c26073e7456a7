package diff

import (
	"strconv"
	"strings"

	"firstbit/trace"
)

// holding is a rank and a state.
type holding struct {
	rank  int
	state string
}

// holdings says which set of ranks has the same part of a state as a rank has.
type holdings struct {
	sets  map[holding]string
	known bool // run.json says; else states are compared where all ranks are one group
	one   bool
}

func holders(t *trace.Trace) holdings {
	h := holdings{sets: map[holding]string{}, known: t.Run.Replicas != nil, one: len(t.Run.Groups) == 1}
	for _, ranks := range t.Run.Groups { // of several, order reaches nothing
		h.one = h.one && len(ranks) >= len(t.Ranks)
	}
	for _, c := range t.Run.Replicas {
		for n, ranks := range c.Ranks {
			for _, rank := range ranks {
				for _, state := range c.States {
					h.sets[holding{rank, state}] = strconv.Itoa(n)
				}
			}
		}
	}
	return h
}

// among names the ranks that must have the record's outputs; false: none must.
func (h holdings) among(rec *trace.Record) (string, bool) {
	switch rec.Kind {
	case "metric":
		return "all", rec.Name != "state" // the fingerprint of a rank's own
	case "state":
		if h.known {
			set, ok := h.sets[holding{rec.Rank, rec.Name}]
			return set, ok
		}
		own := strings.HasSuffix(rec.Name, ".m") || strings.HasSuffix(rec.Name, ".v") || strings.HasSuffix(rec.Name, ".master")
		return "all", h.one && !own
	case "collective":
		return rec.Group, leavesCopies(rec)
	}
	return "", false
}

// leavesCopies tells all-reduces and gathers from what gives every member something else. A trace that does not say what ran shows
// what it wrote: not less than it read.
func leavesCopies(rec *trace.Record) bool {
	if rec.Kernel != "" {
		return strings.HasPrefix(rec.Kernel, "all_reduce") || strings.HasPrefix(rec.Kernel, "all_gather")
	}
	return len(rec.In) > 0 && elements(rec.Out) >= elements(rec.In)
}

func elements(sigs []trace.Sig) (n int) {
	for _, g := range sigs {
		n += g.Numel
	}
	return n
}
