package train

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/parallel"
	"firstbit/state"
)

var quantised = []string{"fp8", "fp8 delayed", "mxfp8", "mxfp8 floor", "nvfp4", "nvfp4 indexed"}

func recipeOf(name string) Config {
	c := Tiny()
	precision, variant, _ := strings.Cut(name, " ")
	c.Precision = precision
	switch variant {
	case "delayed":
		c.Quant.Scaling = variant
	case "floor":
		c.Quant.Rule = variant
	case "indexed":
		c.Streams = variant
	}
	return c
}

func loss(r Result) float64 { return r.Metrics[0].Value }

// The loss of tiny falls in every recipe as it does in bf16.
func TestQuantisedRecipesLearn(t *testing.T) {
	if testing.Short() {
		t.Skip("sixty steps of each recipe")
	}
	last := func(c Config) float64 {
		c.Steps, c.Batch = 60, 1
		if *matrix {
			c.Steps, c.Batch = 60, 4
		}
		tr, err := newRun(c, device.New(device.Options{}))
		require.NoError(t, err)
		sum := 0.0
		for range c.Steps {
			if v := loss(tr.Step()); tr.Done() > c.Steps-10 {
				sum += v / 10
			}
		}
		return sum
	}
	c := Tiny()
	c.Precision = "bf16"
	want := last(c)
	for _, name := range quantised {
		got := last(recipeOf(name))
		require.InDelta(t, 1, got/want, 0.04, name)
		require.NotEqual(t, want, got, "%s: negative control: it is another computation", name)
	}
	flat := c
	flat.Optim.LR, flat.Optim.MinLR = 1e-9, 0
	require.Greater(t, last(flat)/want, 1.5, "negative control")
}

// runLayout runs steps of a configuration on a layout and returns every rank's states.
func runLayout(t *testing.T, c Config, l parallel.Layout, schedule device.Schedule, steps int, each func(*Trainer)) (states []string) {
	t.Helper()
	require.NoError(t, c.CheckLayout(l))
	corpus, err := c.Corpus()
	require.NoError(t, err)
	world := parallel.NewWorld(l, 4)
	ranks := l.Full().World()
	states = make([]string, ranks*steps)
	err = world.Run(func(rank parallel.Rank) error {
		dev := device.New(device.Options{Rank: rank.Index, At: world.At(rank.Index), Schedule: schedule})
		tr, err := NewRank(c, corpus, dev, rank, false)
		if err != nil {
			return err
		}
		tr.Digest = true
		for i := range steps {
			states[i*ranks+rank.Index] = tr.Step().State
		}
		if each != nil {
			each(tr)
		}
		return nil
	})
	require.NoError(t, err)
	return states
}

// Every recipe runs on axes, every one on each in the matrix, and by the fixed recipe no bit depends on the schedule or the number of processors.
func TestQuantisedLayoutsRepeat(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for i, name := range quantised {
		for j, l := range []parallel.Layout{{DP: 2}, {TP: 2}, {PP: 2}, {EP: 2, DP: 2}, {CP: 2}} {
			if !*matrix && j != i%5 && j != (i+2)%5 {
				continue
			}
			c := recipeOf(name)
			c.Micro, c.Seq = 2, 16
			runtime.GOMAXPROCS(1)
			want := runLayout(t, c, l, device.Schedule{Seed: 1}, 2, nil)
			runtime.GOMAXPROCS(3)
			require.Equal(t, want, runLayout(t, c, l, device.Schedule{Seed: 2}, 2, nil), "%s %s", name, l)
			c.Seed++
			require.NotEqual(t, want, runLayout(t, c, l, device.Schedule{Seed: 1}, 2, nil), "negative control")
		}
	}
}

// A data-parallel rank updates some masters, and quantises all of them: its copies are those of the whole master.
func TestCopiesOfShardedMasters(t *testing.T) {
	for _, name := range quantised {
		c := recipeOf(name)
		c.Batch, c.Seq = 2, 16
		runLayout(t, c, parallel.Layout{DP: 2}, device.Schedule{}, 2, func(tr *Trainer) {
			if tr.rank.Index > 0 {
				return
			}
			for _, p := range tr.weights.Params() {
				if p.Quant == nil {
					continue
				}
				for i, v := range p.Master.F32() {
					rounded := p.W.Format.Round(v)
					require.Equal(t, math.Float32bits(rounded), math.Float32bits(p.W.F32()[i]), "%s %s: the master is the weight's", name, p.Name)
				}
			}
		})
	}
}

// The amaxes of a step are the largest that any rank saw, so that all have the same scales, whatever part of a batch or a weight is theirs.
func TestScalesAreAlikeOnAllRanks(t *testing.T) {
	for _, l := range []parallel.Layout{{DP: 2}, {TP: 2}} {
		c := recipeOf("fp8 delayed")
		c.Batch, c.Seq = 2, 16
		scales := make([][]string, 2)
		runLayout(t, c, l, device.Schedule{}, 2, func(tr *Trainer) {
			for _, s := range tr.States(func(r state.Role) bool { return r == state.AmaxHistory || r == state.Scale }) {
				d := s.Digest(nil)
				scales[tr.rank.Index] = append(scales[tr.rank.Index], fmt.Sprintf("%s %x", s.Name, d))
			}
		})
		require.NotEmpty(t, scales[0])
		require.Equal(t, scales[0], scales[1], "%s", l)
	}
}

// A recomputation quantises what the forward quantised, to the same codes.
func TestQuantisedRecomputationIsTheForward(t *testing.T) {
	for _, name := range quantised {
		c := recipeOf(name)
		c.Model.Recompute, c.Micro, c.Model.Dropout = true, 2, 0.1
		fwd, seen := map[string]device.Digest{}, 0
		watch := func(next device.Runner) device.Runner {
			return func(call *device.Call) {
				next(call)
				for _, o := range call.Out {
					key := fmt.Sprintf("%d %d %s %s", call.ID.Step, call.ID.Micro, call.ID.Path, o.Name)
					switch {
					case call.ID.Phase == device.Fwd:
						fwd[key] = o.Digest(nil)
					case call.ID.Phase == device.Rec && call.Kind != device.Recompute && o.Name != "stream":
						require.Equal(t, fwd[key], o.Digest(nil), "%s: %s", name, key)
						seen++
					}
				}
			}
		}
		tr, err := newRun(c, device.New(device.Options{}, watch))
		require.NoError(t, err)
		tr.Step()
		with := tr.stateNow()
		require.Greater(t, seen, 100)
		c.Model.Recompute = false
		tr, err = newRun(c, device.New(device.Options{}))
		require.NoError(t, err)
		tr.Step()
		require.Equal(t, with, tr.stateNow(), name)
	}
}

func (t *Trainer) stateNow() []int32 {
	sum := make([]int32, 4)
	t.fingerprint(sum)
	return sum
}

// A restored run makes its copies from the masters, and goes on with the bits of one that never stopped.
func TestQuantisedRunsContinue(t *testing.T) {
	for _, name := range quantised {
		c := recipeOf(name)
		tr, err := newRun(c, device.New(device.Options{}))
		require.NoError(t, err)
		tr.Step()
		tr.Step()
		saved := &checkpoint.File{Tensors: tr.Save()}
		slices.SortFunc(saved.Tensors, func(a, b checkpoint.Tensor) int { return strings.Compare(a.Name, b.Name) })
		for _, s := range saved.Tensors {
			require.NotContains(t, s.Name, ".packed", "copies are not saved")
		}
		again, err := newRun(c, device.New(device.Options{}))
		require.NoError(t, err)
		require.NoError(t, again.Restore(2, saved))
		lost, err := newRun(c, device.New(device.Options{}))
		require.NoError(t, err)
		require.NoError(t, lost.Restore(2, saved))
		tr.Step() // what was saved lies in its tensors
		again.Step()
		require.Equal(t, tr.stateNow(), again.stateNow(), name)
		if name == "fp8 delayed" { // negative control: a lost history
			clear(lost.weights.Delayed()[0].History.F32())
			lost.Step()
			require.NotEqual(t, tr.stateNow(), lost.stateNow())
		}
	}
}

// Weights that a GLOB of quant.high names have the products of bf16, and what is no linear layer never has others.
func TestHighPrecisionLayers(t *testing.T) {
	c := recipeOf("mxfp8")
	c.Model.Pattern, c.Quant.High = "M*E-", []string{"*.attn.*", "layers.3.mlp.w1"}
	var calls []string
	watch := func(next device.Runner) device.Runner {
		return func(call *device.Call) {
			next(call)
			if call.ID.Phase == device.Fwd && strings.HasSuffix(call.Label, ".quant") {
				calls = append(calls, call.ID.Path)
			}
		}
	}
	tr, err := newRun(c, device.New(device.Options{}, watch))
	require.NoError(t, err)
	tr.Step()
	slices.Sort(calls)
	require.Equal(t, []string{"layers.0.ssm.in_proj.x.quant", "layers.0.ssm.out_proj.x.quant", "layers.2.moe.experts.w1.x.quant",
		"layers.2.moe.experts.w2.x.quant", "layers.2.moe.shared.w1.x.quant", "layers.2.moe.shared.w2.x.quant", "layers.3.mlp.w2.x.quant"}, calls)

	// With everything high it is bf16 to the bit.
	c.Quant.High = []string{"*"}
	all, err := newRun(c, device.New(device.Options{}))
	require.NoError(t, err)
	c.Precision = "bf16"
	plain, err := newRun(c, device.New(device.Options{}))
	require.NoError(t, err)
	require.Equal(t, plain.Step().Metrics, all.Step().Metrics)
	require.NotEqual(t, plain.stateNow(), tr.stateNow(), "negative control")
}

func TestQuantisationIsChecked(t *testing.T) {
	for text, set := range map[string][]string{
		`quant.scaling: "late": must be one of current, delayed`:                                               {"precision=fp8", "quant.scaling=late"},
		`quant.rule: "down": must be one of up, floor`:                                                         {"precision=mxfp8", "quant.rule=down"},
		`quant.history: 0: must be from 1 to 65536`:                                                            {"precision=fp8", "quant.history=0"},
		`quant.scaling: "delayed": must be current with precision mxfp8`:                                       {"precision=mxfp8", "quant.scaling=delayed"},
		`quant.rule: "floor": must be up with precision fp8`:                                                   {"precision=fp8", "quant.rule=floor"},
		`quant.high: [""]: must be GLOBs of weights' names`:                                                    {"precision=fp8", `quant.high=[""]`},
		`precision: "fp4": did you mean fp8 or fp64? must be one of fp32, bf16, fp16, fp64, fp8, mxfp8, nvfp4`: {"precision=fp4"},
	} {
		c := Tiny()
		for _, s := range set {
			require.NoError(t, c.Set(s))
		}
		require.EqualError(t, c.Validate(), text)
	}
	c := recipeOf("fp8")
	c.Quant.High = []string{"*.atn.*"}
	_, err := newRun(c, device.New(device.Options{}))
	require.EqualError(t, err, `quant.high: "*.atn.*": names no weight of a linear layer`)
	for text, change := range map[string]struct {
		precision, layout string
		set               []string
	}{
		"seq: 16: must be a multiple of 32 with recipe canonical and precision mxfp8: a block of tokens must not reach into another sequence":                         {"mxfp8", "", []string{"seq=16"}},
		"layout tp·cp: 4: leaves 16 tokens of a microbatch to a rank: must be a multiple of 32 with recipe canonical and precision mxfp8: a shard off a block's edge": {"mxfp8", "cp=4", []string{"seq=64", "batch=1"}},
		"layout tp: 2: leaves 24 columns of model.hidden to a rank: must be a multiple of 16 with recipe canonical and precision nvfp4: a shard off a block's edge":   {"nvfp4", "tp=2", []string{"seq=64", "model.hidden=48", "model.pattern=-"}},
		"streams: rank: must be indexed with recipe canonical: for stochastic rounding a rank would draw from a stream of its own":                                    {"nvfp4", "", []string{"streams=rank"}},
	} {
		c := recipeOf(change.precision)
		c.Model.MoE.Aux = "sequence"
		for _, s := range change.set {
			require.NoError(t, c.Set(s))
		}
		l, err := parallel.ParseLayout(change.layout)
		require.NoError(t, err)
		require.EqualError(t, c.CheckCanonical(l), text)
	}
}
