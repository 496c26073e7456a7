package checkpoint

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

// allocated is how many bytes f takes.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// refusedCheaply refuses a folder's file by its name, before it takes memory.
func refusedCheaply(t *testing.T, path, want string, read func() error) {
	t.Helper()
	var err error
	require.Less(t, allocated(func() { err = read() }), int64(8<<20), path)
	require.ErrorContains(t, err, "checkpoint "+path+": ")
	require.ErrorContains(t, err, want)
	require.NotContains(t, err.Error(), "\n")
}

func sparse(t *testing.T, path string) {
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	require.NoError(t, os.Truncate(path, 100<<30))
}

// Files of a folder of weights: no more than the model may hold.
func TestWeightsAreBounded(t *testing.T) {
	m := counted(t, small(), lowp.FP32, 0)
	text, err := ConfigToHF(m.Config)
	require.NoError(t, err)
	most := weightsLimit(m)
	long := binary.LittleEndian.AppendUint64(nil, uint64(most.Header+1))
	long = append(long, make([]byte, most.Header+1)...)
	for _, tt := range []struct {
		name, want string
		damage     func(path string)
	}{
		{configFile, "107374182400 bytes: must be at most 1048576", func(path string) { sparse(t, path) }},
		{weightsFile, "107374182400 bytes: must be at most ", func(path string) { sparse(t, path) }},
		{weightsFile, "is a folder: must be a regular file", func(path string) { require.NoError(t, os.Remove(path)); require.NoError(t, os.Mkdir(path, 0o777)) }},
		{weightsFile, fmt.Sprintf("a header of %d bytes: must be at most %d", most.Header+1, most.Header), func(path string) { require.NoError(t, os.WriteFile(path, long, 0o666)) }},
		{indexFile, "107374182400 bytes: must be at most ", func(path string) { sparse(t, path) }},
		{indexFile, "is a device or socket: must be a regular file", func(path string) { require.NoError(t, os.Symlink(os.DevNull, path)) }},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, configFile), text, 0o666))
		require.NoError(t, WriteFile(filepath.Join(dir, weightsFile), HFTensors(m)))
		require.NoError(t, LoadDir(dir, m), "the control")
		path := filepath.Join(dir, tt.name)
		tt.damage(path)
		refusedCheaply(t, path, tt.want, func() error {
			if _, err := ReadConfig(dir, small()); err != nil {
				return err
			}
			return LoadDir(dir, m)
		})
	}
}

// Weights in several files are bounded together.
func TestWeightsInSeveralFilesAreBounded(t *testing.T) {
	m := counted(t, small(), lowp.FP32, 0)
	dir, all := t.TempDir(), HFTensors(m)
	index := []string{}
	for i := range 100 { // each as large as the whole
		name := fmt.Sprintf("model-%03d.safetensors", i)
		require.NoError(t, WriteFile(filepath.Join(dir, name), all))
		index = append(index, fmt.Sprintf("%q:%q", fmt.Sprint(i), name))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, indexFile), []byte(`{"weight_map":{`+strings.Join(index, ",")+`}}`), 0o666))
	_, err := ReadWeights(dir, m)
	require.ErrorContains(t, err, "bytes: must be at most ")
}

func TestCheckpointFitsInMemory(t *testing.T) {
	m := &Manifest{Files: []RankFile{{Bytes: 3}, {Bytes: 4}}}
	require.NoError(t, m.fits(7))
	require.EqualError(t, m.fits(6), "files: of 7 bytes together: 6 bytes of memory are available")
}

// A checkpoint's files are no larger than its manifest says, whose digests one can forge, and that is bounded by what stands in it.
func TestCheckpointsAreBounded(t *testing.T) {
	forged := func(edit func(*Manifest)) func(path string) {
		return func(path string) {
			m, err := ReadManifest(filepath.Dir(path))
			require.NoError(t, err)
			edit(m)
			b, err := m.encode()
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, b, 0o666))
		}
	}
	for _, tt := range []struct {
		name, want string
		damage     func(path string)
	}{
		{manifestFile, "107374182400 bytes: must be at most ", func(path string) { sparse(t, path) }},
		{rankFile(1), "107374182400 bytes: must be at most ", func(path string) { sparse(t, path) }},
		{manifestFile, "107374182400 bytes: must be at most ", forged(func(m *Manifest) { m.Files[0].Bytes = 100 << 30 })},
		{manifestFile, `tensor "a\nb": must hold no control characters`, forged(func(m *Manifest) { m.Files[0].Tensors[0].Name = "a\nb" })},
		{manifestFile, `"dp=1\n": must hold no control characters`, forged(func(m *Manifest) { m.Layout = "dp=1\n" })},
		{manifestFile, "-1 bytes: must be at most ", forged(func(m *Manifest) { m.Files[0].Bytes = -1 })},
		{manifestFile, "must have at most ", forged(func(m *Manifest) { m.Files[1].Tensors[0].Shape = []int{1 << 30, 1 << 30, 1 << 30} })},
		{manifestFile, "must have at most ", forged(func(m *Manifest) { m.Files[1].Tensors[0].Shape = []int{-1, 3} })},
	} {
		dir := filepath.Join(t.TempDir(), "step000001")
		put(t, saver(t, filepath.Dir(dir), 0), 1)
		path := filepath.Join(dir, tt.name)
		tt.damage(path)
		refusedCheaply(t, path, tt.want, func() error { _, err := Open(dir); return err })
	}
}
