package parallel

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// play runs the stages' steps, each as soon as what it needs is there, and says who is stuck; empty: nobody.
func play(pp, vpp int, steps [][]Step) string {
	type done struct {
		backward    bool
		micro, part int
	}
	finished, at := map[done]bool{}, make([]int, pp)
	parts := pp * vpp
	for moved := true; moved; {
		moved = false
		for stage := range pp {
			for ; at[stage] < len(steps[stage]); at[stage]++ {
				s := steps[stage][at[stage]]
				part := s.Chunk*pp + stage
				ready := part == 0 || finished[done{false, s.Micro, part - 1}]
				if s.Backward {
					ready = finished[done{false, s.Micro, part}] && (part == parts-1 || finished[done{true, s.Micro, part + 1}])
				}
				if !ready {
					break
				}
				finished[done{s.Backward, s.Micro, part}] = true
				moved = true
			}
		}
	}
	for stage := range pp {
		if at[stage] < len(steps[stage]) {
			return fmt.Sprintf("stage %d before %v", stage, steps[stage][at[stage]])
		}
	}
	return ""
}

// most is the largest number of microbatches, or chunks of them, whose forward is done and whose backward is not.
func most(steps []Step) int {
	flight, high := 0, 0
	for _, s := range steps {
		if s.Backward {
			flight--
		} else {
			flight++
		}
		high = max(high, flight)
	}
	return high
}

func TestPipeline(t *testing.T) {
	cases := 0
	for pp := 1; pp <= 6; pp++ {
		for vpp := 1; vpp <= 4 && (pp > 1 || vpp == 1); vpp++ {
			for micros := 1; micros <= 13; micros++ {
				if (Layout{PP: pp, VPP: vpp}).CheckMicros(micros) != nil {
					require.Panics(t, func() { Pipeline(pp, vpp, 0, micros) })
					continue
				}
				cases++
				name := fmt.Sprintf("pp %d, vpp %d, %d microbatches", pp, vpp, micros)
				steps := make([][]Step, pp)
				for stage := range pp {
					steps[stage] = Pipeline(pp, vpp, stage, micros)
					next := map[Step]int{}
					for _, s := range steps[stage] { // each once, and for each chunk ascending
						chunk := Step{Backward: s.Backward, Chunk: s.Chunk}
						require.Equal(t, next[chunk], s.Micro, name)
						next[chunk]++
					}
					require.Len(t, next, 2*vpp, name)
					for _, n := range next {
						require.Equal(t, micros, n, name)
					}
					if vpp == 1 {
						require.Equal(t, min(pp-stage, micros), most(steps[stage]), name)
					} else {
						require.LessOrEqual(t, most(steps[stage]), 2*(pp-stage-1)+(vpp-1)*pp+1, name)
					}
				}
				require.Empty(t, play(pp, vpp, steps), name)
			}
		}
	}
	require.Greater(t, cases, 100)
}

// Written out from Megatron's figures: F and B of a microbatch, with the chunk where there are two.
func TestKnownPipelines(t *testing.T) {
	for _, k := range []struct {
		pp, vpp, stage, micros int
		want                   string
	}{
		{4, 1, 0, 5, "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4"},
		{4, 1, 2, 5, "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4"},
		{4, 1, 3, 3, "F0 B0 F1 B1 F2 B2"},
		{4, 1, 0, 2, "F0 F1 B0 B1"},
		{2, 2, 1, 4, "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0"},
		{2, 2, 0, 4, "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0"},
	} {
		var have string
		for i, s := range Pipeline(k.pp, k.vpp, k.stage, k.micros) {
			if i > 0 {
				have += " "
			}
			have += map[bool]string{false: "F", true: "B"}[s.Backward] + fmt.Sprint(s.Micro)
			if k.vpp > 1 {
				have += fmt.Sprint(".", s.Chunk)
			}
		}
		require.Equal(t, k.want, have)
	}
}

// Negative controls: a stage that waits for a gradient too early, or does chunks in another order than its neighbours send.
func TestPipelinesThatAreStuck(t *testing.T) {
	steps := func(pp, vpp, micros int) (all [][]Step) {
		for stage := range pp {
			all = append(all, Pipeline(pp, vpp, stage, micros))
		}
		return all
	}
	all := steps(3, 1, 4)
	all[0][1], all[0][3] = all[0][3], all[0][1] // stage 1 sends no gradient before it has had F1
	require.Equal(t, "stage 0 before {true 0 0}", play(3, 1, all))
	all = steps(3, 1, 4)
	i := slices.Index(all[2], Step{Backward: true})
	all[2][i-1], all[2][i] = all[2][i], all[2][i-1]
	require.Equal(t, "stage 0 before {true 0 0}", play(3, 1, all))
	all = steps(2, 2, 2)
	for i, s := range all[0] {
		all[0][i].Chunk = 1 - s.Chunk
	}
	require.Equal(t, "stage 0 before {false 0 1}", play(2, 2, all))
	require.Equal(t, 8, most(append(slices.Repeat([]Step{{}}, 8), slices.Repeat([]Step{{Backward: true}}, 8)...)), "all forwards first")
}

// The same through a world: every stage adds one on the way, and one on the way back.
func TestPipelineOfMessages(t *testing.T) {
	for _, l := range []Layout{{PP: 2, VPP: 2}, {PP: 3}, {PP: 4, VPP: 3}} {
		l = l.Full()
		const step = 1
		micros := 2 * l.PP
		require.NoError(t, simulateIn(t, NewWorld(l, 4), func(r Rank, dev *device.Device) error {
			m, parts := r.PP(), l.PP*l.VPP
			for _, s := range Pipeline(l.PP, l.VPP, m.Index, micros) {
				part, next, x := s.Chunk*l.PP+m.Index, 1, vector(1)
				phase, first, last := device.Fwd, 0, parts-1
				if s.Backward {
					phase, first, last, next = device.Bwd, last, first, -1
				}
				dev.At(step, s.Micro, phase)
				label := func(part int) string { return fmt.Sprint("part.", part) }
				if part != first {
					x.Set(0, m.Recv(dev, label(part), (part-next+parts)%l.PP, lowp.FP32, 1).Value(0))
				} else {
					x.Set(0, float64(100*s.Micro))
				}
				x.Set(0, x.Value(0)+1)
				if part != last {
					m.Send(dev, label(part+next), (part+next)%l.PP, x)
				} else if want := float64(100*s.Micro + parts); x.Value(0) != want {
					return fmt.Errorf("%v ends with %g: must be %g", s, x.Value(0), want)
				}
			}
			return nil
		}))
	}
}
