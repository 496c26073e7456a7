package checkpoint

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// madeUp is a rank's tensors after a step.
func madeUp(rank, step int) []Tensor {
	x, y := device.NewTensor(lowp.FP32, 2, 3), device.NewTensor(lowp.BF16, 4)
	for i := range x.F32() {
		x.F32()[i] = float32(step) + float32(rank)/8 + float32(i)/64
	}
	y.Set(1, 3)
	return []Tensor{Of("w.master", x), Of("w", y)}
}

func saver(t *testing.T, dir string, keep int) *Saver {
	t.Helper()
	s, err := NewSaver(dir, keep, 2, 0, Manifest{Layout: "dp=2", Config: []byte(`{"seed":1,"model":{"vocab":256}}`)})
	require.NoError(t, err)
	return s
}

func put(t *testing.T, s *Saver, steps ...int) {
	t.Helper()
	for _, step := range steps {
		require.NoError(t, s.Put(1, step, madeUp(1, step)))
		require.NoError(t, s.Put(0, step, madeUp(0, step)))
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestSaveAndOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := saver(t, dir, 2)
	s.Close()
	require.NoDirExists(t, filepath.Dir(dir), "a run that saves nothing leaves nothing")
	s = saver(t, dir, 2)
	require.NoError(t, s.Put(0, 1, madeUp(0, 1)))
	_, err := Open(dir)
	require.ErrorContains(t, err, "holds none", "a rank is missing")
	require.NoError(t, s.Put(1, 1, madeUp(1, 1)))
	put(t, s, 2, 30)
	require.Equal(t, []string{"step000002", "step000030"}, names(t, dir))
	for _, at := range []string{dir, filepath.Join(dir, "step000030")} {
		c, err := Open(at)
		require.NoError(t, err)
		require.Equal(t, 30, c.Step)
		for rank, f := range c.Ranks {
			x, ok := f.Tensor("w.master")
			require.True(t, ok)
			require.Equal(t, madeUp(rank, 30)[0], x)
			y := device.NewTensor(lowp.FP32, 2, 3)
			require.NoError(t, x.Fits(y))
			x.CopyTo(y)
			require.Equal(t, madeUp(rank, 30)[0], Of("w.master", y))
			require.EqualError(t, x.Fits(device.NewTensor(lowp.FP32, 3, 2)), `tensor "w.master": shape [2 3]: must be [3 2]`)
			require.EqualError(t, x.Fits(device.NewTensor(lowp.BF16, 2, 3)), `tensor "w.master": is fp32: must be bf16`)
		}
	}
	_, err = NewSaver(dir, 0, 2, 30, Manifest{})
	require.EqualError(t, err, "save "+dir+": a run writes there already: name another folder")
	s.Close()
	_, err = NewSaver(dir, 0, 2, 2, Manifest{})
	require.ErrorContains(t, err, "holds step000030, and the run begins after step 2")
	s, err = NewSaver(dir, 0, 2, 30, Manifest{})
	require.NoError(t, err)
	require.ErrorContains(t, s.Put(0, 31, append(madeUp(0, 31), madeUp(0, 31)...)), `tensor "w.master": is there twice`)
	require.NoError(t, s.Put(1, 31, madeUp(1, 31)))
	s.Close()
	require.Equal(t, []string{"step000002", "step000030"}, names(t, dir), "what fails leaves nothing")
}

// What a killed run leaves under temporary names is no checkpoint and goes with the next run; what others leave stays.
func TestLeftoversAreIgnoredAndRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{saving + "123", removing + "step000001", "step7", "stepx", "mine", saving + "mine", removing + "mine", saving + "45", removing + "step000003"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, n), 0o777))
	}
	for _, f := range []string{"123/rank00000.safetensors", "123/manifest.json", "45/notes", "45/rank00001.safetensors"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, saving+f), nil, 0o600))
	}
	_, err := Open(dir)
	require.ErrorContains(t, err, "holds none")
	put(t, saver(t, dir, 0), 1)
	require.Equal(t, []string{removing + "mine", saving + "45", saving + "mine", "mine", "step000001", "step7", "stepx"}, names(t, dir))
	require.Equal(t, []string{"notes"}, names(t, filepath.Join(dir, saving+"45")))
}

// --keep removes checkpoints of the run and of the run that it continues, and nothing else of such a name.
func TestOnlyTheRunsOwnArePruned(t *testing.T) {
	dir := t.TempDir()
	run := Manifest{Layout: "dp=2", Config: []byte(`{"seed":1}`)}
	begin := func(keep, after int) *Saver {
		s, err := NewSaver(dir, keep, 2, after, run)
		require.NoError(t, err)
		return s
	}
	s := begin(0, 0)
	put(t, s, 2, 4) // another run's
	s.Close()
	mine := filepath.Join(dir, "step000001", "data")
	require.NoError(t, os.MkdirAll(mine, 0o700))

	s = begin(2, 4)
	put(t, s, 5, 6, 7, 8)
	require.Equal(t, []string{"step000001", "step000002", "step000004", "step000007", "step000008"}, names(t, dir))
	notes := filepath.Join(dir, "step000008", "notes")
	require.NoError(t, os.WriteFile(notes, nil, 0o600))
	s.Close()

	// The run goes on: those that it continues are its own too, though one has been taken away.
	c, err := Open(dir)
	require.NoError(t, err)
	run.Provenance.Previous = c.Digest
	s = begin(1, 8)
	require.Equal(t, []link{{7, s.saved[0].digest}, {8, c.Digest}}, s.saved)
	put(t, s, 9)
	require.Equal(t, []string{"step000001", "step000002", "step000004", "step000008", "step000009"}, names(t, dir))
	require.FileExists(t, notes)
	require.DirExists(t, mine)

	// Another run's has taken the place of one.
	require.NoError(t, os.Rename(filepath.Join(dir, "step000009"), filepath.Join(dir, "away")))
	require.NoError(t, os.Rename(filepath.Join(dir, "step000002"), filepath.Join(dir, "step000009")))
	put(t, s, 10, 11)
	s.Close()
	require.Equal(t, []string{"away", "step000001", "step000004", "step000008", "step000009", "step000011"}, names(t, dir))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "step000009"))) // or it would be a later one for what follows

	// A run that continues another copy of it leaves those here.
	c, err = Open(filepath.Join(dir, "away"))
	require.NoError(t, err)
	run.Provenance.Previous = c.Digest
	s = begin(1, 11)
	put(t, s, 12)
	s.Close()
	require.Equal(t, []string{"away", "step000001", "step000004", "step000008", "step000011", "step000012"}, names(t, dir))
}

// A reader beside a run that saves and prunes reads the newest that there is when it comes to it.
func TestReadBesideASaver(t *testing.T) {
	dir := t.TempDir()
	s := saver(t, dir, 1)
	put(t, s, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for step := 2; step < 25; step++ {
			put(t, s, step)
		}
	}()
	read, last := 0, 0
	for over := false; !over; read++ {
		select {
		case <-done:
			over = true
		default:
		}
		c, err := Open(dir)
		require.NoError(t, err)
		require.GreaterOrEqual(t, c.Step, last)
		last = c.Step
	}
	require.Equal(t, 24, last)
	require.Greater(t, read, 2)
}

// Whichever byte of whichever file is changed, cut off or added: it is refused and named, with the older one that is whole.
func TestDamageIsRefused(t *testing.T) {
	dir := t.TempDir()
	put(t, saver(t, dir, 0), 1, 2)
	newest := filepath.Join(dir, "step000002")
	whole := "; " + filepath.Join(dir, "step000001") + " is whole"
	for _, name := range names(t, newest) {
		path := filepath.Join(newest, name)
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		refused := func(b []byte, what string) string {
			require.NoError(t, os.WriteFile(path, b, 0o666))
			_, err := Open(dir)
			require.ErrorContains(t, err, "checkpoint "+path+": ", what)
			require.ErrorContains(t, err, whole, what)
			require.NotContains(t, err.Error(), "\n")
			return err.Error()
		}
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 1
			why := refused(bad, fmt.Sprintf("byte %d of %s", i, name))
			if strings.HasPrefix(name, "rank") && i >= len(good)-24 { // of the master
				require.Contains(t, why, `tensor "w`)
			}
		}
		for n := 0; n < len(good); n += 7 {
			refused(good[:n], "cut")
		}
		refused(append(bytes.Clone(good), 'x'), "longer")
		require.NoError(t, os.Remove(path))
		_, err = Open(dir)
		require.ErrorContains(t, err, "checkpoint "+path+": no such file or directory"+whole)
		require.NoError(t, os.WriteFile(path, good, 0o666))
		_, err = Open(dir)
		require.NoError(t, err)
	}
	a, b := filepath.Join(newest, rankFile(0)), filepath.Join(newest, rankFile(1)) // each whole, but of another rank
	require.NoError(t, os.Rename(a, a+"x"))
	require.NoError(t, os.Rename(b, a))
	require.NoError(t, os.Rename(a+"x", b))
	_, err := Open(dir)
	require.ErrorContains(t, err, `rank00000.safetensors: tensor "w.master": has digest`)
	require.NoError(t, os.RemoveAll(newest))
	require.NoError(t, os.Rename(filepath.Join(dir, "step000001"), newest))
	_, err = Open(dir)
	require.ErrorContains(t, err, "step: 1: the folder's name says 2")
}

func TestMatch(t *testing.T) {
	base := func() *Manifest {
		return &Manifest{Layout: "dp=2", Precision: "bf16", Config: []byte(`{"seed":1,"steps":3,"data":"a.txt","weights":"w","model":{"vocab":256}}`),
			Corpus: "aa", Weights: "ee", Formats: map[string]string{"masters": "fp32", "weights": "bf16"}, Recipe: "fixed",
			Plans: []string{"* x:seq"}, Library: "sim-1", Provenance: Provenance{Version: "v1", Schedule: "0"}}
	}
	for _, c := range []struct {
		want string
		edit func(*Manifest)
	}{
		{"", func(m *Manifest) {
			m.Provenance, m.Step = Provenance{Version: "v2", Schedule: "7", Faults: []string{"x"}}, 9
		}},
		{"", func(m *Manifest) {
			m.Config = []byte(`{"model": {"vocab":256}, "data":"./a.txt", "weights":"/w", "seed":1, "steps":300}`)
		}},
		{"layout: dp=2 was saved, this run has dp=1: must be the same", func(m *Manifest) { m.Layout = "dp=1" }},
		{"precision: bf16 was saved, this run has fp32: must be the same", func(m *Manifest) { m.Precision = "fp32" }},
		{"model.vocab: 256 was saved, this run has 512: must be the same", func(m *Manifest) {
			m.Config = bytes.Replace(m.Config, []byte("256"), []byte("512"), 1)
		}},
		{"seed: 1 was saved, this run has nothing: must be the same", func(m *Manifest) { m.Config = []byte(`{"model":{"vocab":256}}`) }},
		{"formats.masters: fp32 was saved, this run has fp64: must be the same", func(m *Manifest) { m.Formats["masters"] = "fp64" }},
		{"data: a.txt (aa) was saved, this run has a.txt (bb): must be the same", func(m *Manifest) { m.Corpus = "bb" }},
		{"weights: w (ee) was saved, this run has w (ff): must be the same", func(m *Manifest) { m.Weights = "ff" }},
		{"weights: w (ee) was saved, this run has nothing: must be the same", func(m *Manifest) {
			m.Weights, m.Config = "", bytes.Replace(m.Config, []byte(`"weights":"w",`), nil, 1)
		}},
		{"recipe: fixed was saved, this run has fast: must be the same", func(m *Manifest) { m.Recipe = "fast" }},
		{"plans: * x:seq was saved, this run has nothing: must be the same", func(m *Manifest) { m.Plans = nil }},
		{"library: sim-1 was saved, this run has sim-2: must be the same", func(m *Manifest) { m.Library = "sim-2" }},
	} {
		other := base()
		c.edit(other)
		err := base().Match(other)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, c.want)
	}
}

// A manifest is one JSON object, even with the digest that fits.
func TestManifestEndsWithItsBrace(t *testing.T) {
	m := Manifest{Step: 3, Layout: "dp=1", Config: []byte(`{}`), Files: []RankFile{{Name: rankFile(0)}}}
	good, err := m.encode()
	require.NoError(t, err)
	for _, c := range []struct{ more, want string }{{"", ""}, {" \n\t", ""}, {"}", "is no manifest: 1 bytes after its closing brace"}, {"{}\n", "is no manifest: 2 bytes"},
		{"\x00", "is no manifest: 1 bytes"}} {
		b := bytes.Replace(append(bytes.Clone(good), c.more...), []byte(m.Digest), []byte(noDigest), 1)
		b = bytes.Replace(b, []byte(noDigest), []byte(hash(b)), 1)
		_, err := DecodeManifest(b)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
}

func FuzzManifest(f *testing.F) {
	m := Manifest{Step: 3, Layout: "dp=1", Config: []byte(`{}`), Files: []RankFile{{Name: rankFile(0)}}}
	b, err := m.encode()
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(`{"schema_version":1,"digest":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeManifest(b)
		if err == nil {
			require.Positive(t, m.Step)
			require.NotEmpty(t, m.Files)
		}
	})
}

// The sign and the payload of a NaN, which differ between processors, reach no file.
func TestNaNsAreSavedAsOne(t *testing.T) {
	file := func(bits uint32) []byte {
		x, y := device.NewTensor(lowp.FP32, 2), device.NewTensor(lowp.BF16, 2)
		x.F32()[1], y.F32()[0] = math.Float32frombits(bits), math.Float32frombits(bits)
		b, err := Encode([]Tensor{View("x", x), Of("y", y)})
		require.NoError(t, err)
		return b
	}
	require.Equal(t, file(0x7fc00000), file(0xffc00001))
	require.NotEqual(t, file(0x7fc00000), file(0x7f800000), "negative control")
}
