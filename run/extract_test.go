package run

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/train"
)

// A Call runs by itself with the bits that it had in its run, whatever it is: products, kernels that choose, updates in place, draws, batches,
// collectives on all ranks. With a fault in the run it came from it has other bits: those of the kernel.
func TestExtractedCallsRunByThemselves(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing here is concurrent that other tests are not")
	}
	for _, c := range []struct {
		site   Site
		layout string
		change func(*Spec)
		ranks  int
		differ bool
	}{
		{Site{"layers.1.attn.wq", "fwd", 3, 0}, "", nil, 1, false},
		{Site{"layers.2.moe.experts.w2.dx", "bwd", 2, 0}, "", func(s *Spec) { s.Recipe = "fast" }, 1, false},
		{Site{"layers.2.moe.experts.w1.grad", "bwd", 2, 1}, "", func(s *Spec) { s.Config.Micro = 2 }, 1, false},
		{Site{"layers.0.ssm.scan", "fwd", 2, 0}, "", func(s *Spec) { s.Plans = []string{"*.ssm.scan steps:arrival"} }, 1, false},
		{Site{"layers.0.dropout.mask", "fwd", 2, 0}, "", func(s *Spec) { s.Config.Model.Dropout = 0.1 }, 1, false},
		{Site{"batch", "fwd", 3, 0}, "", nil, 1, false},
		{Site{"optim.embed.w", "opt", 2, 0}, "", nil, 1, false},
		{Site{"grads.bucket.0", "opt", 2, 0}, "dp=2", func(s *Spec) { s.Recipe = "fast" }, 2, false},
		{Site{"layers.2.moe.dispatch.a2a", "fwd", 2, 0}, "dp=2,ep=2", nil, 2, false},
		{Site{"layers.1.attn.wq", "fwd", 2, 0}, "", func(s *Spec) { s.Faults = []string{"flip@layers.1.attn.wq step=2 elem=77 bit=3"} }, 1, true},
	} {
		s := Spec{Config: train.Tiny()}
		s.Config.Steps = 3
		if c.layout != "" {
			var err error
			s.Layout, err = parallel.ParseLayout(c.layout)
			require.NoError(t, err)
		}
		if c.change != nil {
			c.change(&s)
		}
		x, err := Extract(s, c.site, 0)
		require.NoError(t, err, c.site)
		require.Len(t, x.Ranks, c.ranks)
		path := filepath.Join(t.TempDir(), "call.json")
		require.NoError(t, x.Write(path))
		again, err := ReadExtracted(path)
		require.NoError(t, err)
		differences, err := again.Rerun()
		require.NoError(t, err, c.site)
		if !c.differ {
			require.Empty(t, differences, c.site)
			x.Ranks[0].Out[0].Data[0] ^= 1
			differences, err = x.Rerun()
			require.NoError(t, err)
			require.Len(t, differences, 1, "a bit that was not written is seen")
			require.Equal(t, 1, differences[0].Count)
			continue
		}
		require.Len(t, differences, 1)
		require.Equal(t, []int{77, 1}, []int{differences[0].Element, differences[0].Count})
	}
}

func TestExtractRefuses(t *testing.T) {
	s := Spec{Config: train.Tiny()}
	_, err := Extract(s, Site{"layers.1.attn.wqq", "fwd", 1, 0}, 0)
	require.ErrorContains(t, err, "nearest layers.1.attn.wq")
	x, err := Extract(s, Site{"layers.1.attn.wq", "fwd", 1, 0}, 0)
	require.NoError(t, err)
	x.Ranks[0].In[0].Shape = []int{3}
	_, err = x.Rerun()
	require.ErrorContains(t, err, "must be 12, those of shape [3]")
	x.Ranks[0].In[0].Data = make([]byte, 12)
	x.Ranks[0].In[1].Shape, x.Ranks[0].In[1].Data = []int{1}, make([]byte, 4)
	_, err = x.Rerun()
	require.ErrorContains(t, err, "layers.1.attn.wq cannot run on the operands that are given: ")
	require.NotContains(t, err.Error(), "\n")
	s.Faults, s.Checks = []string{"flip@layers.9.none"}, Checks{Strict: true}
	_, err = Extract(s, Site{"layers.1.attn.wq", "fwd", 1, 0}, 0)
	require.ErrorContains(t, err, "no Call of that name", "a fault of nothing")
	x.Ranks[0].In[0].Dtype = "fp33"
	_, err = x.Rerun()
	require.ErrorContains(t, err, "fp33")
}

// A file is read, or refused in one line, and so is each of its tensors.
func FuzzExtracted(f *testing.F) {
	x, err := Extract(Spec{Config: train.Pico()}, Site{"layers.3.mlp.w1", "fwd", 1, 0}, 0)
	require.NoError(f, err)
	x.Ranks[0].In, x.Ranks[0].Out = x.Ranks[0].In[:1], nil
	text, err := json.Marshal(x)
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"ranks":[{"in":[{"dtype":"fp64","shape":[2147483647,2147483647],"data":""}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := decodeExtracted(text)
		if err != nil {
			return
		}
		for i := range x.Ranks {
			if _, err := x.Ranks[i].prepare(x.Site); err != nil {
				require.NotContains(t, err.Error(), "\n")
			}
		}
	})
}
