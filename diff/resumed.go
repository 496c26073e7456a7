package diff

import "firstbit/trace"

// common is what two ranks' records must agree on when one of them continued from a checkpoint and the other did not, or from another
// one: every step after the later checkpoint, from on; 0: all. What comes before, and the restore, only one of them has.
func common(a, b trace.Rank) (_, _ trace.Rank, from int) {
	after, other := restoredAfter(a), restoredAfter(b)
	if after == other {
		return a, b, 0
	}
	from = max(after, other) + 1
	sinceA, sinceB := since(a, from), since(b, from)
	if len(sinceA.Records)+len(sinceB.Records) == 0 {
		return a, b, 0 // nothing is common, which is no agreement
	}
	return sinceA, sinceB, from
}

// restoredAfter is the step whose checkpoint a rank continued from; 0: none.
func restoredAfter(r trace.Rank) (step int) {
	for i := range r.Records {
		if r.Records[i].Phase == "load" {
			step = max(step, r.Records[i].Iteration)
		}
	}
	return step
}

// since is the steps from the given one on.
func since(r trace.Rank, from int) trace.Rank {
	kept := r.Records[:0:0]
	for _, x := range r.Records {
		if x.Iteration >= from {
			kept = append(kept, x)
		}
	}
	r.Records = kept
	return r
}
