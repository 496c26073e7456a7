package parity

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/model"
	"firstbit/optim"
	"firstbit/parallel"
)

// How far a number of a step in fp16 may be from the reference's, which rounds to fp16 where layers meet and nowhere else.
const withinHalf = 6e-3

// scaled is what the reference says of a run in fp16 with a dynamic scale of the loss.
type scaled struct {
	model.Config
	optim optim.Config
	steps *checkpoint.File
}

func openScaled(t *testing.T) scaled {
	text, err := os.ReadFile(filepath.Join("testdata", "loss_scale", "config.json"))
	require.NoError(t, err)
	var c struct {
		Model model.Config
		Optim optim.Config
	}
	require.NoError(t, json.Unmarshal(text, &c))
	require.NoError(t, c.Model.Validate())
	require.NoError(t, c.Optim.Validate())
	return scaled{c.Model, c.Optim, reference{name: "loss_scale"}.file(t, "steps")}
}

// number is a scalar of a step.
func (s scaled) number(t *testing.T, step int, name string) float64 {
	return s.tensor(t, step, name).values[0]
}

func (s scaled) tensor(t *testing.T, step int, name string) tensor {
	x, ok := s.steps.Tensor(fmt.Sprintf("step%d.%s", step, name))
	require.True(t, ok, name)
	v, err := x.Values()
	require.NoError(t, err)
	return tensor{name, x.Shape, v}
}

// follow runs the reference's steps and returns what is farthest from it; skipped steps and scales must be the same. broken changes what
// a step is about to run by.
func (s scaled) follow(t *testing.T, broken func(step int, a *optim.AdamW, schedule *optim.Schedule)) row {
	m := reference{name: "loss_scale"}.build(t, s.Config, lowp.FP16)
	a := optim.New(s.optim, m.Params(), parallel.NewWorld(parallel.Layout{DP: 1}, 1).Rank(0), 1, false)
	a.Scale = optim.NewLossScale(s.optim.LossScale)
	const steps = 4
	schedule, dev, far, skipped := optim.NewSchedule(s.optim, steps), device.New(device.Options{}), row{}, 0
	for step := 1; step <= steps; step++ {
		if broken != nil {
			broken(step, a, schedule)
		}
		in := fmt.Sprintf("step%d.", step)
		tokens, targets := ids(t, s.steps, in+"tokens"), ids(t, s.steps, in+"targets")
		for _, p := range m.Params() {
			p.ZeroGrad()
		}
		dev.At(step, 0, device.Fwd)
		scale := a.Scale.Gradient(dev).Value(0)
		losses, labelled := m.Forward(dev, tokens, targets), float64(targets.Len())
		loss := losses.LM.Value(0)/labelled + sum(losses.Aux) + sum(losses.Z) + losses.MTP[0].Value(0)*m.MTPScale(0, tokens.Dim(1), 1/labelled)
		dev.At(step, 0, device.Bwd)
		m.Backward(dev, scale/labelled, scale)
		dev.At(step, 0, device.Opt)
		norm, taken := a.Step(dev, step-skipped, schedule.Rate())
		got, want := []tensor{scalar("loss", loss)}, []tensor{scalar("loss", s.number(t, step, "loss"))}
		if taken {
			schedule.Advance(dev)
			got, want = append(got, scalar("norm", norm.Value(0))), append(want, scalar("norm", s.number(t, step, "norm")))
		} else {
			skipped++
		}
		for _, p := range m.Params() {
			got, want = append(got, of(p.Name, p.Master)), append(want, s.tensor(t, step, p.Name))
			if taken {
				got, want = append(got, of(p.Name+".grad", p.Grad)), append(want, s.tensor(t, step, p.Name+".grad"))
			}
		}
		got = append(got, scalar("scale", a.Scale.Scale.Value(0)), scalar("position", float64(schedule.Position.Number())))
		want = append(want, scalar("scale", s.number(t, step, "scale")), scalar("position", s.number(t, step, "position")))
		if x := worst(compare(t, got, want)); x.err > far.err {
			far = x
			far.name = in + far.name
		}
	}
	require.Equal(t, 1, skipped)
	return far
}

// Steps in fp16 are those of torch.amp.GradScaler and torch.optim.AdamW: losses, norms, gradients, masters, the scale, and which step is
// skipped.
func TestLossScaleIsGradScalers(t *testing.T) {
	s := openScaled(t)
	far := s.follow(t, nil)
	t.Logf("farthest: %s by %.1e of its largest element", far.name, far.err)
	require.LessOrEqual(t, far.err, withinHalf, far.name)
}

// What may go wrong with the state of a scaled run is farther from the reference than rounding.
func TestLossScaleNegativeControl(t *testing.T) {
	s := openScaled(t)
	for name, c := range map[string]struct {
		step int
		do   func(a *optim.AdamW, schedule *optim.Schedule)
	}{
		"the scale is lost":               {4, func(a *optim.AdamW, _ *optim.Schedule) { a.Scale.Scale.Set(0, s.optim.LossScale.Initial/2) }},
		"the position of a skipped step":  {4, func(_ *optim.AdamW, schedule *optim.Schedule) { schedule.Position.SetNumber(3) }},
		"the growth tracker runs further": {4, func(a *optim.AdamW, _ *optim.Schedule) { a.Scale.Growth.Set(0, 1) }},
	} {
		far := s.follow(t, func(step int, a *optim.AdamW, schedule *optim.Schedule) {
			if step == c.step {
				c.do(a, schedule)
			}
		})
		require.Greater(t, far.err, withinHalf, name)
	}
}
