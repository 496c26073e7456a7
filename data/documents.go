package data

import (
	"fmt"
	"slices"
)

// Documents says what of a corpus' documents a run takes notice of. Samples are windows of the whole stream, so that documents are packed
// into them and cut at their ends.
type Documents struct {
	ResetAttentionMask bool    `json:"reset_attention_mask"` // no token sees another document: attention, scan and convolution begin anew
	EODMaskLoss        bool    `json:"eod_mask_loss"`        // the last token of a document has no label: what follows is another's first
	Prompt             float64 `json:"prompt"`               // share of each document, from its beginning, that is nobody's label, as in instruction tuning
}

// Any tells whether a sample depends on where documents begin.
func (d Documents) Any() bool { return d != Documents{} }

// Validate reports the first field that cannot be.
func (d Documents) Validate() error {
	if !(d.Prompt >= 0 && d.Prompt < 1) {
		return fmt.Errorf("documents.prompt: %g: must be at least 0 and below 1", d.Prompt)
	}
	return nil
}

// check says why a corpus has no documents to take notice of.
func (d Documents) check(c *Corpus) error {
	if d.Any() && len(c.Documents) < 2 {
		return fail(c.Name, "is one document: must be several for documents.reset_attention_mask, documents.eod_mask_loss and documents.prompt: the embedded corpus, a folder of text files, or tokens with a Megatron index (.idx)")
	}
	return nil
}

// mark takes from a sample, which begins at a token of the corpus, the labels that count for nothing, and says where documents begin.
//
//	targets[t] = −1 without a label;  starts[t] = the first step of t's document, 0 where that began before the sample
//
// Shapes: targets, starts (T) or nil.
func (d Documents) mark(c *Corpus, from int, targets, starts []int32) {
	i, found := slices.BinarySearch(c.Documents, int32(from)) // the document at hand
	if !found {
		i--
	}
	start := 0
	for t := range targets {
		if c.begins(i+1) == from+t {
			i, start = i+1, t
		}
		if starts != nil {
			starts[t] = int32(start)
		}
		of := i // the label's document
		if c.begins(i+1) == from+t+1 {
			of++
		}
		if of > i && d.EODMaskLoss || from+t+1 < c.begins(of)+d.prompt(c.begins(of+1)-c.begins(of)) {
			targets[t] = -1
		}
	}
}

// begins is the token that document i begins at; that after the last begins behind all tokens.
func (c *Corpus) begins(i int) int {
	if i >= len(c.Documents) {
		return len(c.Tokens)
	}
	return int(c.Documents[i])
}

// prompt is how many of a document's n tokens are its prompt.
func (d Documents) prompt(n int) int { return int(d.Prompt * float64(n)) } // fits: at most n
