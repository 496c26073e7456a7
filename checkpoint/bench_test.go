package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// named is a tensor of a run.
type named struct {
	name string
	*device.Tensor
}

// views are the tensors as a rank gives them to be saved.
func views(of []named) (tensors []Tensor) {
	for _, x := range of {
		tensors = append(tensors, View(x.name, x.Tensor))
	}
	return tensors
}

// stateOf is 105 MiB as a rank has it: weights, their masters and moments, of several sizes.
func stateOf() (state []named, size int) {
	for i, n := range []int{1 << 20, 1 << 22, 1 << 19, 1 << 21} {
		for _, part := range []struct {
			suffix string
			format lowp.Format
		}{{"", lowp.BF16}, {".master", lowp.FP32}, {".m", lowp.FP32}, {".v", lowp.FP32}} {
			t := device.NewTensor(part.format, n)
			for j := range n {
				t.F32()[j] = float32(j%251) / 8
			}
			state, size = append(state, named{string(rune('a'+i)) + part.suffix, t}), size+n*part.format.Bits()/8
		}
	}
	return state, size
}

// Each round takes the plain way and ours in turn, so that both meet the same disk: of_plain is the plain way's time over ours.
func against(b *testing.B, size int, plain, ours func()) {
	var took [2]time.Duration
	for range b.N {
		for i, do := range []func(){plain, ours} {
			from := time.Now()
			do()
			took[i] += time.Since(from)
		}
	}
	b.ReportMetric(float64(took[0])/float64(took[1]), "of_plain")
	b.ReportMetric(float64(size)*float64(b.N)/1e6/took[1].Seconds(), "MB/s_ours")
}

// BenchmarkSave writes a checkpoint of one rank, digests and all, beside a file of as many bytes; both are synced.
func BenchmarkSave(b *testing.B) {
	state, size := stateOf()
	bytes := make([]byte, size)
	for i := range bytes {
		bytes[i] = byte(i * 7)
	}
	dir := b.TempDir()
	against(b, size, func() {
		path := filepath.Join(dir, "copy")
		require.NoError(b, writeSynced(path, bytes))
		require.NoError(b, os.Remove(path))
	}, func() {
		to := filepath.Join(dir, "run")
		s, err := NewSaver(to, 0, 1, 0, Manifest{Layout: "dp=1", Config: []byte(`{}`)})
		require.NoError(b, err)
		require.NoError(b, s.Put(0, 1, views(state)))
		require.NoError(b, os.RemoveAll(to))
	})
}

// BenchmarkRestore reads and verifies a checkpoint and copies it into tensors, beside a file that is read and copied once.
func BenchmarkRestore(b *testing.B) {
	state, size := stateOf()
	dir := b.TempDir()
	s, err := NewSaver(dir, 0, 1, 0, Manifest{Layout: "dp=1", Config: []byte(`{}`)})
	require.NoError(b, err)
	require.NoError(b, s.Put(0, 1, views(state)))
	to := map[string]*device.Tensor{}
	for _, t := range state {
		to[t.name] = device.NewTensor(t.Format, t.Shape()...)
	}
	into := make([]byte, size)
	against(b, size, func() {
		x, err := os.ReadFile(filepath.Join(dir, "step000001", rankFile(0)))
		require.NoError(b, err)
		copy(into, x)
	}, func() {
		c, err := Open(dir)
		require.NoError(b, err)
		for _, t := range c.Ranks[0].Tensors {
			t.CopyTo(to[t.Name])
		}
	})
}
