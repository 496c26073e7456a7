package diff

import (
	"fmt"
	"strings"

	"firstbit/trace"
)

// among names the ranks that must have the record's outputs; false: none must, or, of a state, the trace does not say who.
func among(rec *trace.Record) (string, bool) {
	switch rec.Kind {
	case "metric":
		return "all", rec.Name != "state" // the fingerprint of a rank's own
	case "state", "load":
		if rec.Place == nil || len(rec.Out) != 1 {
			return "", false
		}
		return fmt.Sprint(*rec.Place, rec.Out[0].Shape), true // those with the same piece
	case "collective":
		return rec.Group, leavesCopies(rec)
	}
	return "", false
}

// notRecorded says of how many states the trace does not tell which piece of the whole a rank has; nil: it tells of all.
func notRecorded(t *trace.Trace) *string {
	n := 0
	for _, rank := range t.Ranks {
		for i := range rank.Records {
			if r := &rank.Records[i]; r.Kind == "state" && r.Place == nil {
				n++
			}
		}
	}
	if n == 0 || len(t.Ranks) < 2 {
		return nil
	}
	text := fmt.Sprintf("which piece of a state a rank has, in %d records: these were not compared over the ranks", n)
	return &text
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
