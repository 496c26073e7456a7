package verify

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// All of them are for the command: here a share that is no subtree, and parts of experts.
func TestBatch(t *testing.T) {
	b := Batch{Sequences: 24, Precisions: []string{"bf16", "fp8"}, Layouts: []string{"dp=8", "dp=6,ep=3,etp=2"}}
	if *exhaustive {
		b.Precisions = BatchPrecisions
	}
	require.NoError(t, b.Check())
	cells, held, err := b.Verify(nil)
	require.NoError(t, err)
	require.Len(t, cells, b.Cells())
	hashes := map[string]bool{}
	for _, c := range cells {
		require.True(t, c.OK, "%s: %v", c.Name, c.Why)
		require.Contains(t, held, c.Hash)
		hashes[c.Hash] = true
	}
	require.Len(t, hashes, len(b.variants()), "one for each precision")
}

// What cannot be is said before anything runs; of the layouts of our own those that can are enough in number.
func TestBatchesThatCannotBe(t *testing.T) {
	for text, b := range map[string]Batch{
		"--batch 0: must be from 1 to 1024":                              {0, BatchPrecisions, nil},
		`bf16: layout "dp=5": dp must divide the 24 sequences of a step`: {24, []string{"bf16"}, []string{"dp=5"}},
		"mxfp8: layout tp·cp: 8: leaves 16 tokens of a microbatch to a rank: must be a multiple of 32 with recipe canonical and precision mxfp8: a shard off a block's edge": {24, []string{"mxfp8"}, []string{"cp=8"}},
	} {
		require.EqualError(t, b.Check(), text)
	}
	require.ErrorContains(t, Batch{24, []string{"fp64"}, nil}.Check(), `--precision "fp64": `)
	all := Batch{24, BatchPrecisions, BatchLayouts}
	require.NoError(t, all.Check())
	require.GreaterOrEqual(t, len(all.Layouts), 40)
	eight := Batch{8, BatchPrecisions, BatchLayouts}.Fitting()
	require.NotContains(t, eight.Layouts, "dp=3")
	require.Contains(t, eight.Layouts, "dp=8,ep=4")
}
