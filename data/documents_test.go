package data

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// documented is the corpus 0, 1, 2, … with documents of 5, 3 and 4 tokens.
func documented() *Corpus {
	c := counting(12)
	c.Documents = []int32{0, 5, 8}
	return c
}

// marked is what a sample of all but the last token has, for tokens 1, 2, …
func marked(t *testing.T, d Documents, width, sample int) (targets, starts []int32) {
	t.Helper()
	s, err := NewSampler(documented(), width, 1, d)
	require.NoError(t, err)
	for s.Consumed = 0; s.Consumed < int64(s.Windows()); {
		tokens := make([]int32, width)
		targets, starts = make([]int32, width), make([]int32, width)
		s.Next(tokens, targets, starts)
		if int(tokens[0]) == sample*width {
			return targets, starts
		}
	}
	t.Fatal("no such sample")
	return nil, nil
}

func TestDocumentsOfASample(t *testing.T) {
	targets, starts := marked(t, Documents{ResetAttentionMask: true}, 11, 0)
	require.Equal(t, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, targets)
	require.Equal(t, []int32{0, 0, 0, 0, 0, 5, 5, 5, 8, 8, 8}, starts)

	targets, _ = marked(t, Documents{EODMaskLoss: true}, 11, 0)
	require.Equal(t, []int32{1, 2, 3, 4, -1, 6, 7, -1, 9, 10, 11}, targets, "tokens 4 and 7 end documents")

	targets, _ = marked(t, Documents{Prompt: 0.5}, 11, 0) // prompts of 2, 1 and 2 tokens: 0, 1, 5, 8, 9
	require.Equal(t, []int32{-1, 2, 3, 4, -1, 6, 7, -1, -1, 10, 11}, targets)

	// A sample that begins within a document, and one whose first label is another document's.
	_, starts = marked(t, Documents{ResetAttentionMask: true}, 3, 1)
	require.Equal(t, []int32{0, 0, 2}, starts, "tokens 3, 4 | 5")
	targets, starts = marked(t, Documents{ResetAttentionMask: true, EODMaskLoss: true}, 4, 1)
	require.Equal(t, []int32{-1, 6, 7, -1}, targets, "tokens 4 | 5, 6, 7")
	require.Equal(t, []int32{0, 1, 1, 1}, starts)
}

func TestDocumentsOfCorpora(t *testing.T) {
	c := Embedded()
	require.Greater(t, len(c.Documents), 1000)
	for _, at := range c.Documents[1:] {
		require.EqualValues(t, '\n', c.Tokens[at-1])
	}
	_, err := NewSampler(counting(9), 4, 1, Documents{EODMaskLoss: true})
	require.ErrorContains(t, err, "data counting: is one document: must be several for documents.reset_attention_mask")
	require.ErrorContains(t, Documents{Prompt: 1}.Validate(), "documents.prompt: 1: must be at least 0 and below 1")
}

func TestMarkingAllocatesNothing(t *testing.T) {
	s, err := NewSampler(documented(), 11, 1, Documents{ResetAttentionMask: true, EODMaskLoss: true, Prompt: 0.25})
	require.NoError(t, err)
	tokens, targets, starts := make([]int32, 11), make([]int32, 11), make([]int32, 11)
	s.Next(tokens, targets, starts)
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Consumed = 0; s.Next(tokens, targets, starts) }))
}
