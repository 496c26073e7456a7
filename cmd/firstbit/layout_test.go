package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnotherProcess is the program, when it is run again with arguments of its own.
func TestAnotherProcess(t *testing.T) {
	if len(flag.Args()) == 0 {
		t.Skip("only as a process of its own")
	}
	os.Exit(perform(flag.Args(), os.Stdout, os.Stderr))
}

// another runs the program in another process on a number of processors.
func another(t *testing.T, procs string, args ...string) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(exe, append([]string{"-test.run=^TestAnotherProcess$", "--"}, args...)...)
	c.Env = append(os.Environ(), "GOMAXPROCS="+procs)
	out, err := c.Output()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func small(layout string, more ...string) []string {
	return append([]string{"train", "--layout", layout, "--steps", "2", "--set", "batch=1", "--set", "seq=8", "--json"}, more...)
}

// A layout's run is the same in every process, on any number of processors, under any schedule, watched or not.
func TestLayoutRepeats(t *testing.T) {
	code, want, _ := firstbit(t, small("dp=6")...)
	require.Zero(t, code)
	require.Equal(t, want, another(t, "1", small("dp=6", "--schedule", "9")...))
	require.Equal(t, want, another(t, "4", small("dp=6", "--trace", filepath.Join(t.TempDir(), "a"), "--level", "kernel")...))
	_, other, _ := firstbit(t, small("dp=5")...)
	require.NotEqual(t, want, other)
}

// The steps of a run count the samples of all ranks, whose experts' tokens add up.
func TestLayoutInJSON(t *testing.T) {
	tokens := func(layout string) (n float64) {
		_, out, _ := firstbit(t, small(layout)...)
		steps := jsonOf(t, out)["steps"].([]any)
		require.Len(t, steps, 2)
		for _, experts := range steps[1].(map[string]any)["experts"].(map[string]any) {
			for _, tokens := range experts.([]any) {
				n += tokens.(float64)
			}
		}
		return n
	}
	one := tokens("dp=1")
	require.Positive(t, one)
	require.Equal(t, 6*one, tokens("dp=6"))
}

func TestDiffOfLayouts(t *testing.T) {
	dir := t.TempDir()
	traced := func(name, layout string, more ...string) string {
		path := filepath.Join(dir, name)
		code, _, stderr := firstbit(t, small(layout, append(more, "--trace", path)...)...)
		require.Zero(t, code, stderr)
		return path
	}
	a, b := traced("a", "dp=3", "--schedule", "1"), traced("b", "dp=3", "--schedule", "2")
	code, out, _ := firstbit(t, "diff", a, b)
	require.Equal(t, exitSame, code, out)
	flipped := traced("flipped", "dp=3", "--inject", "flip@layers.1.attn.wq.dw rank=1 step=2 phase=bwd elem=3 bit=30")
	code, out, _ = firstbit(t, "diff", "--json", a, flipped)
	require.Equal(t, exitDifferent, code)
	first := jsonOf(t, out)["first"].(map[string]any)
	require.Equal(t, "origin wq.dw 1", first["verdict"].(string)+" "+first["name"].(string)+" "+string(rune('0'+int(first["rank"].(float64)))))
	code, _, stderr := firstbit(t, "diff", a, traced("c", "dp=4"))
	require.Equal(t, exitBad, code)
	require.Equal(t, "firstbit: layouts differ: \"dp=3\" and \"dp=4\": diff --layouts compares what they share\n", stderr)
}

// One line says what is wrong, wherever a rank finds it, and nothing is left behind.
func TestBadLayouts(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{small("dp=0"), "--layout \"dp=0\": \"dp=0\": must be from 1 to 16384"},
		{small("dp"), "--layout \"dp\": \"dp\": must be AXIS=N with an axis of dp, tp, pp, vpp, cp, ep, etp"},
		{small("tp=3"), "layout \"dp=1,tp=3\": tp=3 must divide model.vocab (256); the nearest that fit: \"dp=1,tp=2\""},
		{small("ep=3"), "layout \"dp=3,ep=3\": ep=3 must divide model.moe.experts (8); the nearest that fit: \"dp=2,ep=2\" and \"dp=4,ep=4\""},
		{small("pp=1,vpp=2"), "--layout \"dp=1,vpp=2\": vpp needs pp of at least 2; the nearest that fits: \"dp=1\""},
		{small("dp=2,ep=4"), "--layout \"dp=2,ep=4\": etp·ep = 4 must divide tp·cp·dp = 2; the nearest that fits: \"dp=4,ep=4\""},
		{small("dp=4", "--plan", "grads.bucket.0 ranks:given(1 0)"), "plan for grads.bucket.0 (reduce_scatter): ranks:given(1 0)/fp32: is not an order of 4 values, but of 2"},
		{small("dp=4", "--plan", "grads.bucket.0 ranks:ring(4)"), "plan for grads.bucket.0 (reduce_scatter): ranks:ring(4)/fp32: is not an order of 4 values"},
		{small("dp=4", "--inject", "flip@grads.bucket.0 phase=opt rank=2 elem=999999"), "--inject \"flip@grads.bucket.0 phase=opt rank=2 elem=999999\": grads.bucket.0: elem=999999: the output has 4616 elements"},
		{small("dp=4", "--trace-ranks", "0,4-"), "--trace-ranks \"0,4-\": must be from 0 to 3, the ranks of layout \"dp=4\""},
		{small("dp=4", "--steps", "2", "--trace-steps", "3"), "--trace-steps \"3\": must be from 0 (initialisation) to 2, the steps of the run"},
		{small("pp=2,vpp=3"), "layout \"dp=1,pp=2,vpp=3\": pp·vpp=6 must be at most the layers of model.pattern (5); the nearest that fit: \"dp=1,pp=2\""},
		{small("ep=2", "--inject", "flip@layers.2.moe.router.topk rank=1 elem=1 bit=5"),
			"--inject \"flip@layers.2.moe.router.topk rank=1 elem=1 bit=5\": the run cannot go on: fwd layers.2.moe.permute of step 1: runtime error: index out of range [34] with length 9"},
		{small("pp=2,dp=2,tp=2,ep=2", "--set", "cluster.overlap=true", "--set", "micro=4", "--inject", "flip@layers.2.moe.permute rank=4 micro=1 elem=1 bit=9"),
			"--inject \"flip@layers.2.moe.permute rank=4 micro=1 elem=1 bit=9\": the run cannot go on: fwd layers.2.moe.dispatch of step 1: runtime error: slice bounds out of range [8224:128]"},
		{small("dp=4", "--set", "cluster.bucket=0"), "cluster.bucket: 0: must be from 1 to 1073741824"},
		{small("dp=4", "--set", "cluster.ranks_per_node=0"), "cluster.ranks_per_node: 0: must be from 1 to 16384"},
		{small("dp=4", "--deterministic", "--plan", "grads.bucket.? ranks:arrival"), "deterministic: --plan \"grads.bucket.? ranks:arrival\": grads.bucket.0 (reduce_scatter) runs by ranks:arrival/fp32: switches of the network, and whoever adds what comes first, add packets as they come: set ranks:ring, or another order of the ranks; tuned=false from two nodes on (rule in-switch: see train --deterministic --explain)"},
	} {
		path := filepath.Join(t.TempDir(), "trace")
		code, out, stderr := firstbit(t, append(c.args, "--trace", path)...)
		require.Equal(t, exitBad, code, stderr)
		require.Empty(t, out)
		require.Equal(t, "firstbit: "+c.want+"\n", stderr)
		require.NoDirExists(t, path)
	}
}
