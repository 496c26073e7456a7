package trace

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/state"
)

var (
	doubler = &device.Kernel{Name: "double", In: device.Names("x"), Scalars: device.Names("s?"), Out: device.Names("y"), Run: func(c *device.Call) {
		for i, v := range c.Input("x").F32() {
			c.Output("y").F32()[i] = 2 * v
		}
	}}
	shown = &device.Kernel{Name: "value", In: device.Names("value")}
)

var shower = &device.Kernel{Name: "state", Out: device.Names("value")}

// record traces two steps.
func record(t *testing.T, o Options) string {
	t.Helper()
	o.Dir = filepath.Join(t.TempDir(), "trace")
	tr, err := New(o, 0, Run{Layout: "dp=1", Level: o.Level.String()})
	require.NoError(t, err)
	steps(tr, 1, 2, 1.5)
	require.NoError(t, tr.Complete(2, nil))
	return o.Dir
}

// steps runs three Calls a step under a tracer.
func steps(tr *Tracer, from, to int, seed float32) {
	dev := device.New(device.Options{}, tr.Middleware)
	x := device.NewTensor(lowp.FP32, 2, 3)
	x.F32()[4] = seed
	for step := from; step <= to; step++ {
		dev.At(step, 0, device.Fwd)
		in := x
		for _, label := range []string{"a", "b"} {
			c := dev.In("layers.0").Open(label, doubler)
			c.Read("x", in)
			c.ReadScalar("s", 0.5)
			in = c.Write("y", lowp.FP32, 2, 3)
			c.Do()
		}
		c := dev.OpenKind(device.Metric, "loss", shown)
		c.Read("value", in)
		c.Body = nil
		c.Do()
	}
}

func TestRecordsAreTheContract(t *testing.T) {
	tr, err := Open(record(t, Options{Level: Op}))
	require.NoError(t, err)
	require.Len(t, tr.Ranks, 1)
	records := tr.Ranks[0].Records
	require.Len(t, records, 6)
	b := records[1]
	require.Equal(t, Key{0, 1, 0, "fwd", "op", "layers.0", "b", 0}, b.Key())
	require.Equal(t, "fwd layers.0.a", *b.In[0].From)
	require.Equal(t, []int{2, 3}, b.In[0].Shape)
	require.Equal(t, "4008000000000000", b.In[0].XOR, "3.0 as float64 bits (docs/facts.md, Fingerprints)")
	require.Len(t, b.In[0].Digest, 32)
	require.Equal(t, b.In[0].Digest, records[0].Out[0].Digest, "what was written is what is read")
	require.Equal(t, 0.5, *b.In[1].Value)
	require.Nil(t, records[0].In[0].From, "nobody recorded wrote x")
	require.Equal(t, 1, records[1].Seq)
	require.Equal(t, 2, records[3].Iteration)

	text, err := os.ReadFile(filepath.Join(tr.Dir, FileName(0, 1)))
	require.NoError(t, err)
	body, end := cutEnd(text)
	require.Equal(t, fmt.Sprintf(`{"kind":"end","rank":0,"iteration":1,"records":3,"digest":%q,"previous":""}`+"\n", hashOf(body)), string(end))
	next, err := os.ReadFile(filepath.Join(tr.Dir, FileName(0, 2)))
	require.NoError(t, err)
	body, end = cutEnd(next)
	require.Contains(t, string(end), fmt.Sprintf(`"iteration":2,"records":3,"digest":%q,"previous":%q}`, hashOf(body), hashOf(text[:bytes.LastIndex(text, []byte("{\"kind\":\"end"))])))
}

// What a Call shows of the run's state stands in its record, with its place, and is read again; other records have none of it.
func TestStatesHavePlaces(t *testing.T) {
	o := Options{Level: Semantic, Dir: filepath.Join(t.TempDir(), "trace")}
	tr, err := New(o, 0, Run{Layout: "dp=1", Level: o.Level.String()})
	require.NoError(t, err)
	dev := device.New(device.Options{}, tr.Middleware)
	place := state.Place{Whole: []int{4, 6}, Cuts: []state.Cut{{Dim: 1, Part: 1, Parts: 2}}, Lo: 2}
	held := device.Held{Item: state.New("w", state.FirstMoment, place), Tensor: device.NewTensor(lowp.FP32, 5)}
	dev.At(1, 0, device.Init)
	for _, open := range []func() *device.Call{
		func() *device.Call { return dev.In("state").OpenState(device.State, held, shower) },
		func() *device.Call { return dev.OpenKind(device.Loading, "x", shower) },
	} {
		c := open()
		c.Update("value", held.Tensor)
		c.Do()
	}
	require.NoError(t, tr.Complete(1, nil))
	read, err := Open(o.Dir)
	require.NoError(t, err)
	with, without := read.Ranks[0].Records[0], read.Ranks[0].Records[1]
	require.Equal(t, "w.m", with.Name)
	require.Equal(t, state.FirstMoment, with.Role)
	require.Equal(t, "w", with.Of)
	require.Equal(t, place, *with.Place)
	require.True(t, with.SamePiece(&with))
	require.Nil(t, without.Place)
	require.False(t, with.SamePiece(&without) || without.SamePiece(&without), "it is not recorded")
	moved := with
	moved.Place = &state.Place{Whole: place.Whole, Cuts: place.Cuts, Lo: 3}
	require.False(t, with.SamePiece(&moved))
	text, err := os.ReadFile(filepath.Join(o.Dir, FileName(0, 1)))
	require.NoError(t, err)
	require.Contains(t, string(text), `"role":"first-moment","of":"w","place":{"whole":[4,6],"cuts":[{"dim":1,"part":1,"parts":2}],"lo":2}`)
	_, err = parseRecord([]byte(`{"schema_version":2,"kind":"state","phase":"fwd","place":{"whole":[4],"cuts":[{"dim":0,"part":0,"parts":3}]}}`))
	require.ErrorContains(t, err, "place: cut {Dim:0 Part:0 Parts:3}: does not divide [4]")
}

func TestLevelsAndWindows(t *testing.T) {
	count := func(o Options) int {
		tr, err := Open(record(t, o))
		require.NoError(t, err)
		return len(tr.Ranks[0].Records)
	}
	require.Equal(t, 2, count(Options{Level: Metrics}))
	require.Equal(t, 6, count(Options{Level: Op}))
	require.Equal(t, 10, count(Options{Level: Kernel}), "each op with its kernel record")
	require.Equal(t, 3, count(Options{Level: Op, Steps: Set{{2, 2}}}))
	dir := record(t, Options{Level: Op, Ranks: Set{{1, 3}}})
	_, err := Open(dir)
	require.ErrorContains(t, err, "names no rank", "rank 0 was not asked for")
}

func TestDumpKeepsBytes(t *testing.T) {
	dir := record(t, Options{Level: Op, Dump: "*.b"})
	tr, err := Open(dir)
	require.NoError(t, err)
	require.Empty(t, tr.Ranks[0].Records[0].Out[0].Dump)
	b, err := os.ReadFile(filepath.Join(dir, tr.Ranks[0].Records[1].Out[0].Dump))
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0xc0, 0x40}, b[16:20], "6.0, little-endian")

	// They are those that the digest was made of, also of a NaN with a sign and a payload.
	dir = filepath.Join(t.TempDir(), "nan")
	w, err := New(Options{Dir: dir, Level: Op, Dump: "*.b"}, 0, Run{Level: "op"})
	require.NoError(t, err)
	steps(w, 1, 1, math.Float32frombits(0xffa00001))
	require.NoError(t, w.Complete(1, nil))
	tr, err = Open(dir)
	require.NoError(t, err)
	out := tr.Ranks[0].Records[1].Out[0]
	b, err = os.ReadFile(filepath.Join(dir, out.Dump))
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0xc0, 0x7f}, b[16:20])
	d := device.DigestNamed(out.Dtype, out.Shape, b)
	require.Equal(t, hex.EncodeToString(d[:]), out.Digest)
}

func TestRowsShowPermutations(t *testing.T) {
	a, b := device.NewTensor(lowp.INT32, 4, 2), device.NewTensor(lowp.INT32, 4, 2)
	copy(a.I32(), []int32{1, 2, 3, 4, 5, 6, 7, 8})
	copy(b.I32(), []int32{1, 2, 5, 6, 3, 4, 7, 8}) // two tokens swap experts
	var s signer
	ga, gb := s.tensor(device.Arg{Name: "index", Tensor: a}), s.tensor(device.Arg{Name: "index", Tensor: b})
	require.Equal(t, ga.XOR, gb.XOR, "the XOR alone is blind to it")
	require.NotEqual(t, ga.Digest, gb.Digest)
	require.Equal(t, ga.Rows[0], gb.Rows[0])
	require.NotEqual(t, ga.Rows[1], gb.Rows[1])
}

func TestCompressedTracesAreRead(t *testing.T) {
	dir := record(t, Options{Level: Op})
	for i := 1; i <= 2; i++ {
		name := filepath.Join(dir, FileName(0, i))
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		var z bytes.Buffer
		w, err := zstd.NewWriter(&z)
		require.NoError(t, err)
		_, err = w.Write(text)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, os.WriteFile(name+".zst", z.Bytes(), 0o644))
		require.NoError(t, os.Remove(name))
	}
	tr, err := Open(dir)
	require.NoError(t, err)
	require.Len(t, tr.Ranks[0].Records, 6)
}

func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	tr, err := New(Options{Dir: filepath.Join(t.TempDir(), "t"), Level: Op}, 0, Run{})
	require.NoError(t, err)
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(tr.Dir, FileName(0, 1))))
	dev := device.New(device.Options{}, tr.Middleware)
	dev.At(1, 0, device.Fwd)
	c := dev.Open("a", doubler)
	c.Read("x", device.NewTensor(lowp.FP32, 1))
	c.Write("y", lowp.FP32, 1)
	c.Do()
	require.ErrorContains(t, tr.EndStep(), "no space left", "at the step, though a buffer holds the records")
	require.ErrorContains(t, tr.Complete(1, nil), "no space left")
	_, err = Open(tr.Dir)
	require.ErrorContains(t, err, "rank00000_iter000001.jsonl: is a device or socket", "and the trace is not whole")
}

func TestParseSetAndLevel(t *testing.T) {
	s, err := ParseSet("0,3,8-15,20-")
	require.NoError(t, err)
	for i, want := range map[int]bool{0: true, 1: false, 3: true, 10: true, 16: false, 99: true} {
		require.Equal(t, want, s.Has(i), i)
	}
	require.True(t, Set(nil).Has(7))
	for _, bad := range []string{"x", "3-1", "-1", "1,,2", "1-x"} {
		_, err := ParseSet(bad)
		require.Error(t, err, bad)
	}
	l, err := ParseLevel("5")
	require.NoError(t, err)
	require.Equal(t, Kernel, l)
	_, err = ParseLevel("off")
	require.Error(t, err)
}

// A trace without a folder holds what a reader of the folder has, besides what says which files there are.
func TestTraceWithoutAFolder(t *testing.T) {
	written, err := Open(record(t, Options{Level: Kernel}))
	require.NoError(t, err)
	var kept Trace
	tr, err := New(Options{Level: Kernel, Into: &kept}, 0, Run{Layout: "dp=1", Level: Kernel.String()})
	require.NoError(t, err)
	steps(tr, 1, 2, 1.5)
	require.NoError(t, tr.Complete(2, nil))
	text := func(of any) string {
		b, err := json.Marshal(of)
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, text(written.Ranks), text(kept.Ranks))
	for _, field := range []string{"holds", "ends", "digest"} {
		delete(written.Raw, field)
		delete(kept.Raw, field)
	}
	require.Equal(t, written.Raw, kept.Raw)
	require.Equal(t, written.Run.Config, kept.Run.Config)

	abandoned, err := New(Options{Level: Kernel, Into: &kept}, 0, Run{Layout: "dp=1", Level: Kernel.String()})
	require.NoError(t, err)
	steps(abandoned, 1, 1, 2)
	abandoned.Abandon(1)
	require.Equal(t, written.Raw, kept.Raw, "a run that fails leaves what was there")
}
