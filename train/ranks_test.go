package train

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/optim"
	"firstbit/parallel"
	"firstbit/reduce"
)

// ranks is what a test kept of a run over several ranks.
type ranks struct {
	results [][]Result // by rank and step
	weights [][]string // digests of all weights and of expert bias, by rank and step
	samples [][]int32  // tokens and targets as they were dealt, by rank
	grads   map[string][]float64
	params  int
}

// run trains over ranks and gathers the gradients of the first step from the shards that the ranks update.
func run(t testing.TB, c Config, n, steps int, plans ...string) *ranks {
	t.Helper()
	r := &ranks{results: make([][]Result, n), weights: make([][]string, n), samples: make([][]int32, n), grads: map[string][]float64{}}
	shards := make([]map[string]*device.Tensor, n)
	trainers := make([]*Trainer, n)
	w := parallel.NewWorld(parallel.Layout{DP: n}, c.Cluster.RanksPerNode)
	corpus, err := c.Corpus()
	require.NoError(t, err)
	require.NoError(t, w.Run(func(rank parallel.Rank) error {
		i := rank.Index
		shards[i] = map[string]*device.Tensor{}
		dev := device.New(device.Options{Rank: i, At: w.At(i)}, planned(plans), func(next device.Runner) device.Runner {
			return func(call *device.Call) {
				next(call)
				switch {
				case call.Kind == device.Batch:
					r.samples[i] = append(append(r.samples[i], call.Out[0].I32()...), call.Out[1].I32()...)
				case call.Kernel.Name == "reduce_scatter" && call.ID.Step == 1:
					shards[i][call.Label] = device.NewTensor(call.Out[0].Format, call.Out[0].Len())
					shards[i][call.Label].CopyFrom(call.Out[0].Tensor)
				}
			}
		})
		tr, err := NewRank(c, corpus, dev, rank, false)
		if err != nil {
			return err
		}
		trainers[i] = tr
		for range steps {
			r.results[i] = append(r.results[i], tr.Step())
			r.weights[i] = append(r.weights[i], digest(tr))
			if n == 1 && len(r.results[i]) == 1 {
				for _, p := range tr.Model.Params() {
					r.grads[p.Name] = values(p.Grad)
				}
			}
		}
		return dev.Err()
	}))
	r.params = len(trainers[0].Model.Params())
	if n > 1 {
		r.gather(trainers[0].Optim, shards)
	}
	return r
}

// gather lays the shards of every bucket end to end and cuts them into its parameters again.
func (r *ranks) gather(d *optim.AdamW, shards []map[string]*device.Tensor) {
	for b, bucket := range d.Buckets {
		var all []float64
		for _, rank := range shards {
			all = append(all, values(rank["bucket."+strconv.Itoa(b)])...)
		}
		for _, p := range bucket.Params {
			r.grads[p.Name], all = all[:p.Grad.Len()], all[p.Grad.Len():]
		}
		if len(all) > 0 {
			panic("a bucket holds more than its parameters")
		}
	}
}

func values(t *device.Tensor) []float64 {
	v := make([]float64, t.Len())
	for i := range v {
		v[i] = t.Value(i)
	}
	return v
}

func digest(tr *Trainer) string {
	var b strings.Builder
	for _, p := range tr.Model.Params() {
		d := p.W.Digest(nil)
		b.Write(d[:])
	}
	for _, r := range tr.Model.Routers() {
		d := r.Bias.Digest(nil)
		b.Write(d[:])
	}
	return b.String()
}

// planned sets items of collectives' plans.
func planned(plans []string) device.Middleware {
	return func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			for _, text := range plans {
				if c.Kind == device.Collective && c.Plan.Has("ranks") {
					p, err := reduce.ParsePlan(text)
					if err == nil {
						c.Plan, err = c.Plan.With(p)
					}
					if err != nil {
						panic(err)
					}
				}
			}
			next(c)
		}
	}
}

// tiniest is a model of a pattern that ranks share evenly and unevenly.
func tiniest(pattern, precision string) Config {
	c := Tiny()
	c.Batch, c.Seq, c.Precision = 1, 16, precision
	c.Model.Pattern, c.Model.Vocab, c.Model.Width, c.Model.Heads, c.Model.KVHeads, c.Model.Hidden = pattern, 256, 16, 2, 1, 24
	c.Model.SSM.Heads, c.Model.SSM.HeadDim, c.Model.SSM.State, c.Model.SSM.Groups = 2, 8, 8, 1
	c.Model.MoE.Experts, c.Model.MoE.Hidden, c.Model.MoE.SharedHidden, c.Model.MoE.AuxCoeff = 4, 16, 8, 0
	c.Cluster.Bucket = 2000
	return c
}

// apart is the largest distance of two lists, relative to the largest value of the first.
func apart(t testing.TB, a, b []float64) float64 {
	require.Equal(t, len(a), len(b))
	most, far := 0.0, 0.0
	for i := range a {
		most, far = max(most, math.Abs(a[i])), max(far, math.Abs(a[i]-b[i]))
	}
	if far == 0 {
		return 0
	}
	return far / most
}

func sameGradients(t testing.TB, one, many *ranks, within float64, what string) {
	t.Helper()
	require.Len(t, many.grads, one.params, what)
	for name, g := range one.grads {
		require.LessOrEqual(t, apart(t, g, many.grads[name]), within, "%s: %s", what, name)
	}
	for i, m := range one.results[0][0].Metrics {
		require.InDelta(t, m.Value, many.results[0][0].Metrics[i].Value, within*math.Abs(m.Value)+1e-300, "%s: %s", what, m.Name)
	}
}

var tolerances = map[string]float64{"fp32": 1e-5, "fp64": 1e-12, "bf16": 2e-2}

// Data parallel is one rank on the global batch: the same samples, loss and gradients, up to rounding.
func TestRanksAreOneRankOnTheGlobalBatch(t *testing.T) {
	for i, pattern := range []string{"*-", "M-", "M*E", "*E-/*-"} {
		for j, precision := range []string{"fp32", "fp64", "bf16"} {
			for k, n := range []int{2, 3, 8} {
				if testing.Short() && n > 2 || !testing.Short() && !*matrix && k != (i+j)%3 {
					continue // two ranks are enough for the race detector
				}
				within := tolerances[precision]
				c := tiniest(pattern, precision)
				c.Batch = 1 + n%2
				c.Micro = 1 + n%3/2
				what := c.Precision + " " + pattern
				global := c
				global.Batch, global.Micro = c.Batch*c.Micro*n, 1
				one, many := run(t, global, 1, 1), run(t, c, n, 1)
				sameGradients(t, one, many, within, what)
				require.Equal(t, one.samples[0], dealt(many.samples, c), what)
				// The negative control: the same ranks without one of them.
				require.Panics(t, func() {
					sameGradients(panicking{t}, one, run(t, c, n-1, 1), within, what)
				}, what)
			}
		}
	}
}

// panicking makes a failed requirement a panic.
type panicking struct{ testing.TB }

func (panicking) Errorf(string, ...any) {}
func (panicking) FailNow()              { panic("not the same") }

// dealt puts the ranks' samples together as one rank would be dealt them: all tokens, then all targets.
func dealt(samples [][]int32, c Config) []int32 {
	var tokens, targets []int32
	n := c.Batch * c.Seq
	for _, s := range samples {
		for ; len(s) > 0; s = s[2*n:] {
			tokens, targets = append(tokens, s[:n]...), append(targets, s[n:2*n]...)
		}
	}
	return append(tokens, targets...)
}

// The ranks' samples of a step are those that one rank would be dealt, each once, at every step.
func TestRanksShareTheSamples(t *testing.T) {
	c := tiniest("-", "fp32")
	c.Micro = 2
	const n, steps = 3, 4
	many := run(t, c, n, steps)
	global := c
	global.Batch, global.Micro = c.Batch*c.Micro*n, 1
	one := run(t, global, 1, steps)
	perRank := len(many.samples[0]) / steps
	for step := range steps {
		var of [][]int32
		for i := range n {
			of = append(of, many.samples[i][step*perRank:][:perRank])
			for j := range i {
				require.NotEqual(t, of[j], of[i], "step %d: ranks %d and %d", step, j, i)
			}
		}
		require.Equal(t, one.samples[0][step*n*perRank:][:n*perRank], dealt(of, c), "step %d", step)
	}
}

// After every step all ranks have the same weights and expert bias, whatever the model, the precision and the buckets.
func TestWeightsAreEqualOnAllRanks(t *testing.T) {
	for i, precision := range Precisions {
		for j, bucket := range []int{1, 777, 1 << 20} {
			if !*matrix && j != i%3 {
				continue
			}
			c := tiniest("M*E-/*E", precision)
			c.Micro, c.Model.Dropout, c.Model.Tied, c.Model.MoE.AuxCoeff = 2, 0.1, bucket == 777, 1e-2
			const n, steps = 5, 3
			r := run(t, c, n, steps)
			for step := range steps {
				for i := range n {
					require.Equal(t, r.weights[0][step], r.weights[i][step], "%s, bucket %d: rank %d after step %d", precision, bucket, i, step+1)
					require.Equal(t, r.results[0][step], r.results[i][step], "%s, bucket %d: metrics of rank %d", precision, bucket, i)
				}
				require.True(t, step == 0 || r.weights[0][step] != r.weights[0][step-1], "they change")
			}
		}
	}
}

// The size of buckets decides in which chunk of the ring an element lies, so its bits, and nothing else: by an order that is the same
// for every element, any size gives the same bits.
func TestBucketSizesGiveTheSameGradients(t *testing.T) {
	for _, precision := range []string{"fp32", "bf16"} {
		for _, order := range []string{"ring", "seq"} {
			var first *ranks
			others := 0
			for _, size := range []int{1 << 20, 2000, 501, 1} {
				c := tiniest("M*-", precision)
				c.Cluster.Bucket = size
				c.Optim.Clip = 0 // the norm adds bucket by bucket, and scales every gradient
				r := run(t, c, 5, 3, "ranks:"+order)
				if first == nil {
					first = r
					continue
				}
				sameGradients(t, first, r, 1e-6, order)
				if !reflect.DeepEqual(first.grads, r.grads) {
					others++
				}
				if order == "seq" {
					require.Equal(t, first.weights[0], r.weights[0], "%s", precision)
				}
			}
			require.Equal(t, map[string]int{"ring": 3, "seq": 0}[order], others, "%s %s", precision, order)
		}
	}
}
