package swarm

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/diff"
	"firstbit/trace"
)

// slice runs a few cases of every kind.
func slice(t *testing.T, o Options) *Result {
	t.Helper()
	o.Seed = 5
	if o.N == 0 {
		o.N = dealt()
	}
	if o.Localise == nil {
		o.Localise = Diff
	}
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	return r
}

// What diff says of a case of each kind is right.
func TestDiffNamesWhatWasBroken(t *testing.T) {
	r := slice(t, Options{})
	for _, m := range r.Missed {
		t.Errorf("%s\n said %s\nright %s\n--replay '%s'", m.Kind, m.Said, strings.Join(m.Right, "\n      "), m.Replay)
	}
	require.Equal(t, []float64{1, 1, 1}, []float64{r.Precision, r.Recall, r.Class})
	require.Zero(t, r.FalseAlarms)
	require.Len(t, r.Kinds, len(kinds))
}

// Cases that were told wrong once, with the rule that each is about.
func TestKnownCases(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "cases.txt"))
	require.NoError(t, err)
	about := ""
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			about = line
			continue
		}
		c, err := Parse(line)
		require.NoError(t, err)
		again, err := c.Again(Diff)
		require.NoError(t, err)
		require.True(t, again.OK, "%s\n%s\nsaid  %s\nright %s", about, line, again.Said, strings.Join(again.Right, "; "))
	}
}

// A localiser that names another Call has nothing right, one that finds nothing or abstains has no recall, and one that finds what is not there
// raises alarms.
func TestWrongLocalisersScoreNothing(t *testing.T) {
	score := func(kind string, change func(*diff.Report)) *Result {
		const n = 2
		r := slice(t, Options{N: n, Kind: kind, Localise: func(a, b *trace.Trace) (*diff.Report, error) {
			r, err := Diff(a, b)
			if err == nil {
				change(r)
			}
			return r, err
		}})
		require.Len(t, r.Missed, n-r.Kinds[kind].Right)
		return r
	}
	wrong := score("flip", func(r *diff.Report) { r.First.Name += "x" })
	require.Equal(t, []float64{0, 0, 0}, []float64{wrong.Precision, wrong.Recall, wrong.Class})
	for name, change := range map[string]func(f *diff.Finding){"rank": func(f *diff.Finding) { f.Rank++ }, "step": func(f *diff.Finding) { f.Iteration++ },
		"microbatch": func(f *diff.Finding) { f.Microbatch++ }, "phase": func(f *diff.Finding) { f.Phase = "x" }} {
		require.Zero(t, score("flip", func(r *diff.Report) { change(r.First) }).Recall, name)
	}
	for name, change := range map[string]func(r *diff.Report){"class": func(r *diff.Report) { *r.Class = "tuner" }, "no class": func(r *diff.Report) { r.Class = nil },
		"verdict": func(r *diff.Report) { r.First.Verdict = "memory" }} {
		r := score("flip", change)
		require.Equal(t, []float64{1, 1, 0}, []float64{r.Precision, r.Recall, r.Class}, name)
	}
	blind := score("flip", func(r *diff.Report) { *r = diff.Report{Identical: true} })
	require.Equal(t, []float64{1, 0, 0}, []float64{blind.Precision, blind.Recall, blind.Class}, "what names nothing names nothing wrong")
	mute := score("flip", func(r *diff.Report) { r.First.Verdict = "narrow" })
	require.Equal(t, []float64{1, 0, 0}, []float64{mute.Precision, mute.Recall, mute.Class})
	require.Equal(t, 2, mute.Kinds["flip"].Abstained)
	for _, kind := range []string{"clean", "distorted", "untraced", "outside"} {
		alarmed := score(kind, func(r *diff.Report) {
			r.Identical, r.First, r.Class = false, &diff.Finding{Verdict: "origin", Location: trace.Location{Name: "x"}}, nil
		})
		require.Zero(t, alarmed.Precision, kind)
		require.Zero(t, alarmed.Kinds[kind].Right, kind)
		if kind == "clean" {
			require.Equal(t, 2, alarmed.FalseAlarms)
		}
	}
}

// dealt is so many cases that each kind comes as often as its share.
func dealt() (n int) {
	for _, k := range kinds {
		n += int(k.share)
	}
	return n
}

// The same cases come out whoever runs them, in shards or at once, on however many processors. Shards are put together once each.
func TestShardsAreTheSwarm(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const n = 3
	miss := Options{N: n, Localise: func(a, b *trace.Trace) (*diff.Report, error) { return &diff.Report{Identical: true}, nil }}
	whole := slice(t, miss)
	require.Len(t, whole.Missed, n)
	runtime.GOMAXPROCS(1)
	var parts []*Result
	for shard := range 3 {
		o := miss
		o.Shard, o.Shards = 2-shard, 3
		r := slice(t, o)
		require.Equal(t, n/3, r.N)
		require.False(t, r.Complete())
		text, err := json.Marshal(r)
		require.NoError(t, err)
		parts = append(parts, &Result{})
		require.NoError(t, json.Unmarshal(text, parts[shard]))
	}
	two, err := Merge(parts[:2])
	require.NoError(t, err)
	require.False(t, two.Complete())
	merged, err := Merge(parts)
	require.NoError(t, err)
	require.True(t, merged.Complete())
	require.Equal(t, whole, merged)
	_, err = Merge([]*Result{parts[0], parts[1], parts[0]})
	require.ErrorContains(t, err, "are in two shards")
	parts[0].Seed++
	_, err = Merge(parts)
	require.ErrorContains(t, err, "must be of one swarm")
}

// Every kind is at least 3 % of a swarm.
func TestEveryKindIsDealt(t *testing.T) {
	for _, k := range kinds {
		require.GreaterOrEqual(t, float64(k.share)/float64(dealt()), 0.03, k.name)
	}
}

// A miss is shrunk to what it is missed with, and its line runs it again.
func TestMissesShrink(t *testing.T) {
	wrong := func(a, b *trace.Trace) (*diff.Report, error) {
		r, err := Diff(a, b)
		if err == nil && r.First != nil && strings.Contains(r.First.Path(), "attn") {
			r.First.Name = "w"
		}
		return r, err
	}
	c := Case{Kind: "flip", Set: []string{"model.pattern=-*E", "steps=3", "model.dropout=0.1", "cluster.overlap=true"}, Layout: "dp=2,tp=2", Recipe: "fast",
		Faults: []Fault{{Kind: "flip", Text: "flip@layers.1.attn.wk step=2 elem=7 bit=3", Name: "layers.1.attn.wk", Phase: "fwd", Step: 2}}}
	o := Options{Localise: wrong, Shrink: 60}
	b := &bench{}
	defer b.close()
	found := drawn{Case: c, trial: b.try(&c, wrong)}
	require.NoError(t, found.err)
	require.False(t, found.right)
	o.shrink(b, &found)
	require.Equal(t, []string{"model.pattern=-*", "steps=2"}, found.Set)
	require.Equal(t, "dp=1", found.Layout)
	require.Empty(t, found.Recipe)
	parsed, err := Parse(found.Text())
	require.NoError(t, err)
	require.Equal(t, found.Case, *parsed)
	again, err := parsed.Again(wrong)
	require.NoError(t, err)
	require.False(t, again.OK)
	again, err = parsed.Again(Diff)
	require.NoError(t, err)
	require.True(t, again.OK, again.Said)
	require.Equal(t, []string{"origin/hardware at fwd layers.1.attn.wk, rank 0 step 2 microbatch 0"}, again.Right)
}

// A case that cannot be is refused in a line.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{`{`: "", `{"kind":"x"}`: "kind: ", `{"kind":"flip","layout":"dp=x"}`: "layout", `{"kind":"flip","set":["y=1"]}`: "no field",
		`{"kind":"flip","colour":1}`: "colour"} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want)
	}
}
