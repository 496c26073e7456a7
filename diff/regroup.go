package diff

import (
	"fmt"
	"strings"

	"firstbit/parallel"
	"firstbit/trace"
)

// A bucket size decides which gradients travel together. Where it differs, a Call that adds or gathers a bucket reads others in one run than in the
// other, and a rank's part of an optimizer state is another part.

// clusterField tells whether a field of the configuration says how ranks are grouped.
func clusterField(d Field) bool {
	return strings.HasPrefix(d.Field, "config.cluster.") || d.Field == "config.optim.replicated"
}

// regrouped tells whether a Call reads other tensors in one run than in the other, by their names, though what both read is equal: nothing
// before it computed another bit, the configuration asks it for something else.
func regrouped(a, b *trace.Record) bool {
	if a.Kind != "op" && a.Kind != "kernel" && a.Kind != "collective" || sameNames(a.In, b.In) {
		return false
	}
	digests := make(map[string]string, len(b.In))
	for _, g := range b.In {
		digests[g.Name] = g.Digest
	}
	shared := 0
	for _, g := range a.In {
		d, both := digests[g.Name]
		if both && d != g.Digest {
			return false
		}
		if both {
			shared++
		}
	}
	return shared > 0
}

func sameNames(a, b []trace.Sig) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name {
			return false
		}
	}
	return true
}

// alone counts the tensors that one run reads and the other does not.
func alone(a, b *trace.Record) string {
	count := func(x, y []trace.Sig) (n int) {
		for _, g := range x {
			if !hasName(y, g.Name) {
				n++
			}
		}
		return n
	}
	return fmt.Sprintf("it reads other tensors, %d in run A alone and %d in run B alone; those that both read are equal", count(a.In, b.In), count(b.In, a.In))
}

func hasName(sigs []trace.Sig, name string) bool {
	for _, g := range sigs {
		if g.Name == name {
			return true
		}
	}
	return false
}

// samePieces leaves out the states of which a rank has other pieces in the two runs: there is nothing to compare.
func samePieces(ra, rb trace.Rank, a, b held) (x, y trace.Rank) {
	x, y = ra, rb
	x.Records, y.Records = alsoIn(b, rb.Records, ra.Records), alsoIn(a, ra.Records, rb.Records)
	return x, y
}

// held are the states of which some rank of a trace has a piece.
type held struct {
	names map[string]bool
	all   bool // all ranks are traced
}

func heldIn(t *trace.Trace) held {
	h := held{names: map[string]bool{}}
	l, err := parallel.ParseLayout(t.Run.Layout)
	h.all = err != nil || len(t.Ranks) >= l.World()
	for _, rank := range t.Ranks {
		for i := range rank.Records {
			if r := &rank.Records[i]; r.Kind == "state" {
				h.names[r.Name] = true
			}
		}
	}
	return h
}

// alsoIn leaves out the states of which a rank has another piece in another run, or has none there while other ranks have.
func alsoIn(other held, there, records []trace.Record) []trace.Record {
	shown := map[trace.Key]*trace.Record{}
	for i := range there {
		if there[i].Kind == "state" {
			shown[there[i].Key()] = &there[i]
		}
	}
	kept := records[:0:0]
	for i := range records {
		r := &records[i]
		o := shown[r.Key()]
		switch {
		case r.Kind != "state" || r.Place == nil:
		case o != nil && o.Role == r.Role && o.Place != nil && !r.SamePiece(o):
			continue
		case o == nil && r.Role.Sharded() && (other.names[r.Name] || !other.all):
			continue
		}
		kept = append(kept, *r)
	}
	return kept
}
