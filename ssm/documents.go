package ssm

import (
	"math"

	"firstbit/device"
	"firstbit/kernel"
)

// documents says where documents begin in the steps at hand, which are whole sequences or the same part of each. A state and a
// convolution begin anew with every document: what belongs to another is absent.
//
// Source: Dao & Gu's kernels take such documents as seq_idx.
type documents struct {
	starts    []int32 // (B,of): of every step of whole sequences, the step that its document begins at; nil: sequences are documents
	first, of int     // where in their sequences the steps at hand begin, and how long these are
}

// begin is the step that the document of step t begins at, both counted from the first at hand: below 0 it began before.
func (d documents) begin(seq, t int) int {
	if d.starts == nil {
		return math.MinInt
	}
	return int(d.starts[seq*d.of+d.first+t]) - d.first
}

// together tells whether two steps are of one document.
func (d documents) together(seq, t, at int) bool {
	return d.starts == nil || d.begin(seq, max(t, at)) <= min(t, at)
}

// steps are those of a causal product over n steps from t on.
func (d documents) steps(seq, t, n int) kernel.Steps {
	s := kernel.Steps{Keys: n, Queries: n}
	if d.starts != nil {
		s.Starts, s.Base = d.starts[seq*d.of+d.first+t:][:n], d.first+t
	}
	return s
}

// reach is how many of n steps from t on are of the document of the step before them.
func (d documents) reach(seq, t, n int) int {
	if d.starts == nil {
		return n
	}
	for i := range n {
		if d.begin(seq, t+i) >= t {
			return i
		}
	}
	return n
}

// readDocuments declares that a Call reads where documents begin; nil starts: sequences are documents.
func readDocuments(c *device.Call, starts *device.Tensor, first int) {
	if starts != nil {
		c.Read("starts", starts)
		c.ReadScalar("first", float64(first))
	}
}

// documentsOf is what a Call read so.
func documentsOf(c *device.Call) documents {
	starts := c.Input("starts")
	if starts == nil {
		return documents{}
	}
	return documents{starts.I32(), int(c.Scalar("first")), starts.Cols()}
}
