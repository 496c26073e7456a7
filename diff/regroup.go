package diff

import (
	"fmt"
	"strings"

	"firstbit/trace"
)

// A bucket size decides which gradients travel together. Where it differs, a Call that adds or gathers a bucket reads others in one run than in the
// other, and a rank's part of an optimizer state is another part.

const bucketField = "config.cluster.bucket"

// clusterField tells whether a field of the configuration says how ranks are grouped.
func clusterField(d Field) bool { return strings.HasPrefix(d.Field, "config.cluster.") }

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

// cutAlike leaves out the states that the two runs hold other parts of: there is nothing to compare.
func (r *Report) cutAlike(records []trace.Record) []trace.Record {
	if !r.differ(bucketField) {
		return records
	}
	kept := records[:0:0]
	for _, rec := range records {
		if rec.Kind != "state" || !strings.HasSuffix(rec.Name, ".m") && !strings.HasSuffix(rec.Name, ".v") && !strings.HasSuffix(rec.Name, ".master") {
			kept = append(kept, rec)
		}
	}
	return kept
}

func (r *Report) differ(field string) bool {
	for _, d := range r.ConfigDifferences {
		if d.Field == field {
			return true
		}
	}
	return false
}
