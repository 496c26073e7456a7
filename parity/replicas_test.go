package parity

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/data"
	"firstbit/device"
	"firstbit/parallel"
	"firstbit/state"
	"firstbit/train"
)

// elements are tensors of a run by name, put together from what ranks have of each.
type elements struct {
	sync.Mutex
	of map[string][]float64
}

func (e *elements) add(prefix string, pieces []device.Held) {
	e.Lock()
	defer e.Unlock()
	for _, p := range pieces {
		name := prefix + p.Of
		if e.of[name] == nil {
			e.of[name] = make([]float64, p.Place.Elements())
		}
		for i := range p.Len() {
			e.of[name][p.Place.Index(i)] = p.Value(i)
		}
	}
}

// steps are the losses, norms, gradients and weights of a run over a layout that begins with the reference's weights.
func (r reference) steps(t *testing.T, c train.Config, corpus *data.Corpus, l parallel.Layout) map[string][]float64 {
	all := &elements{of: map[string][]float64{}}
	w := parallel.NewWorld(l, 2)
	require.NoError(t, w.Run(func(rank parallel.Rank) error {
		dev := device.New(device.Options{Rank: rank.Index, At: w.At(rank.Index), Schedule: device.Schedule{Seed: 3}})
		tr, err := train.NewRank(c, corpus, dev, rank, false)
		if err != nil {
			return err
		}
		weights, err := checkpoint.ReadWeights("testdata/"+r.name, tr.Model)
		if err != nil {
			return err
		}
		if err := r.load(tr.Model, weights); err != nil {
			return err
		}
		for range c.Steps {
			result := tr.Step()
			step := fmt.Sprintf("step%d.", result.Step)
			all.add(step+"grad.", tr.States(func(r state.Role) bool { return r == state.Gradient }))
			if rank.Index > 0 {
				continue
			}
			all.add(step+"w.", tr.States(func(r state.Role) bool { return r == state.Weight }))
			for _, m := range result.Metrics {
				switch m.Name {
				case "loss":
					all.of[step+"loss"] = []float64{m.Value}
				case "grad_norm":
					all.of[step+"norm"] = []float64{m.Value}
				}
			}
		}
		return dev.Err()
	}))
	return all.of
}

// twoSteps are those of two data-parallel ranks.
func twoSteps(t *testing.T, change func(*train.Config)) map[string][]float64 {
	ref := reference{name: "replicas"}
	c := train.Tiny()
	c.Model, c.Precision, c.Steps, c.Batch, c.Micro, c.Seq, c.Cluster.Bucket = ref.config(t), "fp64", 2, 2, 2, 8, 512
	c.Optim.LR, c.Optim.MinLR, c.Optim.Warmup, c.Optim.Decay, c.Optim.Weight, c.Optim.Clip = 1e-2, 0, 0, "constant", 0.1, 0.25
	change(&c)
	return ref.steps(t, c, ref.corpus(t, c.Model.Vocab), parallel.Layout{DP: 2})
}

// corpus is what the reference was trained on.
func (r reference) corpus(t *testing.T, vocab int) *data.Corpus {
	out := r.file(t, "outputs")
	c := &data.Corpus{Name: r.name, Vocab: vocab}
	for _, id := range ids(t, out, "corpus").I32() {
		c.Tokens = append(c.Tokens, uint16(id)) // fits: it is below the vocabulary
	}
	if _, ok := out.Tensor("documents"); ok {
		c.Documents = ids(t, out, "documents").I32()
	}
	return c
}

// far is the largest difference from the reference, of a tensor's largest element, and the tensor.
func (r reference) far(t *testing.T, got map[string][]float64) (worst float64, name string) {
	compared := 0
	for _, x := range r.file(t, "outputs").Tensors {
		if !strings.HasPrefix(x.Name, "step") {
			continue
		}
		compared++
		want, err := x.Values()
		require.NoError(t, err)
		require.Len(t, got[x.Name], len(want), x.Name)
		largest, off := 0.0, 0.0
		for i, v := range want {
			largest, off = max(largest, math.Abs(v)), max(off, math.Abs(got[x.Name][i]-v))
		}
		if d := off / largest; !(d <= worst) {
			worst, name = d, x.Name
		}
	}
	require.Equal(t, compared, len(got))
	require.Greater(t, compared, 50)
	return worst, name
}

// Losses, norms, gradients and weights of two steps are those of PyTorch's DistributedDataParallel with AdamW and clip_grad_norm_ over two processes, to
// which its ZeroRedundancyOptimizer and fully_shard come too: with a sharded optimizer and a replicated one, with sums that are sent during the
// backward, and without.
func TestTwoReplicas(t *testing.T) {
	ref := reference{name: "replicas"}
	corpus := ref.file(t, "outputs")
	order := ids(t, corpus, "windows").I32()
	tokens := make([]uint16, 8*len(order)+1)
	for i := range tokens {
		tokens[i] = uint16(i / 8)
	}
	s, err := data.NewSampler(&data.Corpus{Tokens: tokens}, 8, train.Tiny().Seed, data.Documents{})
	require.NoError(t, err)
	dealt := make([]int32, 8*len(order))
	s.Next(dealt, make([]int32, len(dealt)), nil)
	for i, window := range order {
		require.Equal(t, window, dealt[8*i], "the windows that replicas.py takes")
	}
	for _, replicated := range []bool{false, true} {
		for _, overlap := range []bool{false, true} {
			far, name := ref.far(t, twoSteps(t, func(c *train.Config) { c.Optim.Replicated, c.Cluster.Overlap = replicated, overlap }))
			require.LessOrEqual(t, far, 1e-11, "replicated=%t overlap=%t: %s", replicated, overlap, name)
		}
	}
	for name, change := range map[string]func(*train.Config){
		"weight decay": func(c *train.Config) { c.Optim.Weight = 0 },
		"clipping":     func(c *train.Config) { c.Optim.Clip = 0.26 },
		"β2":           func(c *train.Config) { c.Optim.Beta2 = 0.951 },
	} {
		far, _ := ref.far(t, twoSteps(t, change))
		require.Greater(t, far, 1e-6, "negative control: %s", name)
	}
}
