package tune

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/trace"
)

// The words of a plan that say where are taken out, wherever they stand; a reduction may have the name of one.
func TestPoliciesOfOnePlace(t *testing.T) {
	p, err := ParsePolicy("a.* step=2-3,7 micro:arrival; micro=1;tie=low; phase=bwd rank=2 tp=1 n:splitk(2,given(1 0))")
	require.NoError(t, err)
	require.Equal(t, "micro:arrival/fp32; n:splitk(2,given(1 0))/fp32; tie=low", p.Plan.String())
	want := Everywhere(device.Bwd)
	want.Steps, want.Micro, want.Rank, want.At.TP = trace.Set{{Lo: 2, Hi: 3}, {Lo: 7, Hi: 7}}, 1, 2, 1
	require.Equal(t, want, p.Where)
	p, err = ParsePolicy("* n:reverse; rank=0")
	require.NoError(t, err)
	require.Equal(t, "n:reverse/fp32", p.Plan.String())
	for bad, want := range map[string]string{
		"* rank=0": "names nothing to choose", "* rank=x n:seq": `rank: "x": must be a number`, "* step=2 step=3 n:seq": "step: given twice", "* phase=fdw n:seq": "did you mean fwd",
	} {
		_, err := ParsePolicy(bad)
		require.ErrorContains(t, err, want)
	}
}

// A policy acts at its place alone.
func TestPoliciesActWhereTheySay(t *testing.T) {
	at := device.Coord{TP: 1, DP: 2}
	plan := func(words string) string {
		p, err := ParsePolicy("name tie=native " + words)
		require.NoError(t, err)
		tuner := &Tuner{Rank: 5, Policies: []*Policy{p}}
		dev := device.New(device.Options{Rank: 5, At: at}, tuner.Middleware)
		dev.At(3, 1, device.Fwd)
		c := dev.Open("name", kernel)
		c.Write("y", lowp.FP32, 1)
		c.Body = nil
		c.Do()
		return c.Plan.String()
	}
	for _, words := range []string{"", "step=3", "micro=1", "phase=fwd", "rank=5", "tp=1", "dp=2", "pp=0", "cp=0", "ep=0", "step=1- micro=1 phase=fwd rank=5 tp=1 dp=2 pp=0"} {
		require.Equal(t, "n:seq/fp32; tie=native", plan(words), words)
	}
	for _, words := range []string{"step=4", "micro=0", "phase=bwd", "rank=4", "tp=0", "dp=1", "pp=1", "cp=1", "ep=1", "rank=5 tp=0"} {
		require.Equal(t, "n:seq/fp32; tie=low", plan(words), words)
	}
}

func TestWhereARunHasNothing(t *testing.T) {
	g := Grid{"dp=2", []device.Coord{{}, {DP: 1}}, 2}
	for words, want := range map[string]string{
		"rank=1 dp=1 micro=1": "", "rank=2": `rank: 2: must be from 0 to 1, the ranks of layout "dp=2"`, "micro=2": "micro: 2: must be from 0 to 1", "rank=0 dp=1": `rank 0 dp=1: no rank of layout "dp=2" is there`,
		"tp=1": "tp=1: no rank",
	} {
		p, err := ParsePolicy("* n:seq " + words)
		require.NoError(t, err)
		if err = p.Check(g); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	w := Everywhere(StepPhases)
	require.True(t, w.OnRank(0, device.Coord{}) && w.OnRank(7, device.Coord{TP: 1}))
	w.First = true
	require.True(t, w.OnRank(0, device.Coord{}) && !w.OnRank(7, device.Coord{TP: 1}))
	w.At.TP = 1
	require.True(t, !w.OnRank(0, device.Coord{}) && w.OnRank(7, device.Coord{TP: 1}), "a coordinate is enough")
	for p, in := range map[device.Phase]bool{device.Fwd: true, device.Opt: true, device.Init: false, device.Load: false} {
		require.Equal(t, in, w.InPhase(p))
	}
}
