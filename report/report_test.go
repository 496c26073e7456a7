package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/diff"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// flipped is a pair of four steps of pico; with a fault run B has a bit flipped in the second.
func flipped(t *testing.T, fault ...string) *Pair {
	c := train.Pico()
	c.Steps, c.Precision = 4, "bf16"
	p := &run.Pair{Dir: t.TempDir()}
	p.Specs[0] = run.Spec{Config: c}
	p.Specs[1] = run.Spec{Config: c, Faults: fault}
	return &Pair{Specs: p.Specs, Runs: [2]string{"a", "</script>"}, Trace: p.Trace, Localize: diff.Localize}
}

func TestPageOfAPair(t *testing.T) {
	var stages []string
	page, err := flipped(t, "flip@layers.1.attn.wk step=2 elem=7 bit=3").Page(func(what string, page *Page) { stages = append(stages, what) })
	require.NoError(t, err)
	require.Equal(t, []string{"runs", "metrics", "semantic", "module", "op", "kernel"}, stages)
	require.Len(t, stages, Stages-1)
	require.Equal(t, "layers.1.attn.wk", page.Diff.First.Path())
	require.Equal(t, "The runs part at step 2 in layers.1.attn.wk, forward, on rank 0: it read the same bits and wrote other ones (class hardware); 1 of 128 elements differ, the first by 8 ulp.", page.Sentence)
	require.Equal(t, 7, page.Bytes.Element)
	require.Equal(t, 16, page.Sum.Leaves)
	require.Equal(t, page.Sum.Tree[0], page.Sum.Tree[1])
	require.True(t, strings.HasPrefix(page.Sum.Tree[0], "((((((((((((((((0 1) 2)") || strings.Count(page.Sum.Tree[0], "(") == 15)

	first, last := page.Chain[0], page.Chain[len(page.Chain)-1]
	require.Equal(t, diff.Parted{Step: 2, Phase: "fwd", Kind: "op", Path: "layers.1.attn.wk"}, first)
	require.Equal(t, "loss", last.Path)
	for i, c := range page.Chain[1:] {
		require.NotEmpty(t, c.Input, i)
	}
	for _, c := range page.Calls {
		if c.Path == "layers.1.attn.wk" {
			require.True(t, c.Differs)
			require.Empty(t, c.In[0].B+c.In[1].B)
			require.NotEmpty(t, c.Out[0].B)
			require.Equal(t, map[string]int{"k": 16}, c.Leaves)
		}
	}
	require.Len(t, page.Steps, 4)
	require.Equal(t, page.Steps[0].State[0], page.Steps[0].State[1])
	require.NotEqual(t, page.Steps[1].State[0], page.Steps[1].State[1])

	html, err := page.HTML()
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(html), "</script>"), "a text of a run ends no element")
	_, data, _ := strings.Cut(string(html), `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	want, err := json.Marshal(page)
	require.NoError(t, err)
	require.JSONEq(t, string(want), data)
}

func TestPageOfTheSameBits(t *testing.T) {
	page, err := flipped(t).Page(func(string, *Page) {})
	require.NoError(t, err)
	require.True(t, page.Diff.Identical)
	require.Empty(t, page.Chain)
	require.Nil(t, page.Sum)
	require.Zero(t, page.Routes.Flips)
	require.Contains(t, page.Sentence, "The runs have the same bits")
}

// Of two traces what they do not hold is run again, unless that has other bits.
func TestPageOfTraces(t *testing.T) {
	p := flipped(t, "flip@layers.1.attn.wk step=2 elem=7 bit=3")
	var traces [2]*trace.Trace
	for side, s := range p.Specs {
		traces[side] = &trace.Trace{}
		s.Trace, s.Digest = trace.Options{Level: trace.Op, Into: traces[side]}, true
		_, err := run.Run(s)
		require.NoError(t, err)
	}
	r, err := diff.Compare(traces[0], traces[1])
	require.NoError(t, err)
	page, err := OfTraces(traces[0], traces[1], r, t.TempDir())
	require.NoError(t, err)
	require.Empty(t, page.Missing)
	require.Nil(t, page.Diff.Bytes, "the verdict stays that of the traces")
	require.Equal(t, 7, page.Bytes.Element)
	require.Equal(t, 16, page.Sum.Leaves)
	require.NotNil(t, page.Routes)

	for i := range traces[1].Ranks[0].Records { // a trace of another machine, say
		if m := &traces[1].Ranks[0].Records[i]; m.Kind == "metric" && m.Name == "loss" && m.Iteration == 3 {
			m.Bits = "00000000"
		}
	}
	page, err = OfTraces(traces[0], traces[1], r, t.TempDir())
	require.NoError(t, err)
	require.Len(t, page.Missing, 1)
	require.Contains(t, page.Missing[0], "comes to other bits when it is run again, from step 3 on")
	require.Nil(t, page.Routes)
}
