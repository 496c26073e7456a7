package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The object of a swarm is the contract's; shards are put together, and a case runs again.
func TestSwarm(t *testing.T) {
	dir := t.TempDir()
	var shards []string
	for _, shard := range []string{"0/2", "1/2"} {
		code, out, stderr := firstbit(t, "swarm", "--seed", "3", "--n", "4", "--kind", "flip", "--shard", shard, "--json")
		require.Zero(t, code, stderr)
		shards = append(shards, filepath.Join(dir, shard[:1]))
		require.NoError(t, os.WriteFile(shards[len(shards)-1], []byte(out), 0o644))
	}
	code, out, stderr := firstbit(t, append([]string{"swarm", "merge", "--json"}, shards...)...)
	require.Zero(t, code, stderr)
	var r struct {
		N                        int
		Precision, Recall, Class float64
		FalseAlarms              *int `json:"false_alarms"`
		Missed                   []struct{ Replay string }
		Kinds                    map[string]map[string]int
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, 4, r.N)
	require.Equal(t, []float64{1, 1, 1}, []float64{r.Precision, r.Recall, r.Class})
	require.NotNil(t, r.FalseAlarms)
	require.NotNil(t, r.Missed)
	for _, key := range []string{"n", "right", "abstained", "harmless"} {
		require.Contains(t, r.Kinds["flip"], key)
	}
	require.Equal(t, 4, r.Kinds["flip"]["right"])
	_, out, _ = firstbit(t, "swarm", "merge", shards[1])
	require.Contains(t, out, "shards are missing")

	flip := `{"kind":"flip","set":["model.pattern=*","steps=1"],"faults":[{"kind":"flip","text":"flip@layers.0.attn.wk elem=7 bit=30","name":"%s","phase":"fwd","step":1,"rank":0,"micro":0}]}`
	code, out, stderr = firstbit(t, "swarm", "--replay", strings.Replace(flip, "%s", "layers.0.attn.wk", 1))
	require.Zero(t, code, stderr)
	require.Contains(t, out, "firstbit train --preset pico --set 'model.pattern=*' --set 'steps=1' --inject 'flip@layers.0.attn.wk elem=7 bit=30' --trace b\nfirstbit diff a b\n")
	code, out, _ = firstbit(t, "swarm", "--replay", strings.Replace(flip, "%s", "layers.0.attn.wq", 1))
	require.Equal(t, exitDifferent, code)
	require.Contains(t, out, "none of the Calls of the fault is where bits part")

	other := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(other, []byte(`{"n":1}`), 0o644))
	for args, want := range map[string]string{"--n 0": "--n 0: must be", "--shard 2/2": "--shard", "--shard x": "--shard", "--n 2 --shard 0/3": "--shard", "--kind flop": "did you mean",
		"--replay {": "--replay: ", "merge": "must be FILE", "merge " + other: "holds no shard", "merge " + dir + "/none": "none: ", "merge " + shards[0] + " " + shards[0]: "are in two shards",
		"--replay {} --n 3": "exclude each other"} {
		code, _, stderr := firstbit(t, append([]string{"swarm"}, strings.Fields(args)...)...)
		require.Equal(t, exitBad, code, args)
		require.Contains(t, stderr, want, args)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
}

// A row for each finder, in JSON and in print.
func TestCorruption(t *testing.T) {
	code, out, stderr := firstbit(t, "swarm", "corruption", "--seed", "5", "--n", "1", "--json")
	require.Zero(t, code, stderr)
	var r struct {
		N, Transient, Lasting int
		Finders               []struct {
			Name string
			Cost float64
		}
		Missed []any
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, 1, r.N)
	require.Equal(t, 1, r.Transient+r.Lasting)
	require.Len(t, r.Finders, 6)
	require.NotNil(t, r.Missed)
	_, out, _ = firstbit(t, "swarm", "corruption", "--seed", "5", "--n", "1")
	for _, f := range r.Finders {
		require.Contains(t, out, f.Name)
	}
	code, _, stderr = firstbit(t, "swarm", "corruption", "--n", "0")
	require.Equal(t, exitBad, code)
	require.Contains(t, stderr, "--n 0: must be from 1 to")
}
