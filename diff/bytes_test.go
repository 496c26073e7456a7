package diff

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/trace"
)

// dump keeps bytes as a trace does.
func dump(t *testing.T, dir, dtype string, n int, bytes []byte) trace.Sig {
	t.Helper()
	d := device.DigestNamed(dtype, []int{n}, bytes)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "y.bin"), bytes, 0o644))
	return trace.Sig{Name: "y", Dtype: dtype, Shape: []int{n}, Numel: n, Digest: hex.EncodeToString(d[:]), Dump: "y.bin"}
}

func words[T uint16 | uint32 | uint64](values ...T) []byte {
	var b []byte
	for _, v := range values {
		b, _ = binary.Append(b, binary.LittleEndian, v) // fixed sizes do not fail
	}
	return b
}

func TestBytesOfEveryDtype(t *testing.T) {
	for _, c := range []struct {
		dtype string
		n     int
		a, b  []byte
		want  Bytes
	}{
		{"fp32", 3, words[uint32](0x3f800000, 0x40000000, 0x40400000), words[uint32](0x3f800000, 0x40000001, 0x40800000),
			Bytes{Element: 1, A: "40000000", B: "40000001", ValueA: "2", ValueB: "2.0000002", Ulps: 1, Count: 2}},
		{"fp32", 1, words[uint32](0), words[uint32](0x80000000), Bytes{A: "00000000", B: "80000000", ValueA: "0", ValueB: "-0", Ulps: 1, Count: 1}},
		{"fp64", 1, words(math.Float64bits(-math.MaxFloat64)), words(math.Float64bits(math.MaxFloat64)), Bytes{A: "ffefffffffffffff", B: "7fefffffffffffff",
			ValueA: "-1.7976931348623157e+308", ValueB: "1.7976931348623157e+308", Ulps: 2*0x7fefffffffffffff + 1, Count: 1}},
		{"bf16", 2, words[uint16](0x3f80, 0x0001), words[uint16](0x3f80, 0x8001), Bytes{Element: 1, A: "0001", B: "8001", ValueA: "9.1835e-41", ValueB: "-9.1835e-41", Ulps: 3, Count: 1}},
		{"fp16", 1, words[uint16](0x3c00), words[uint16](0x3bff), Bytes{A: "3c00", B: "3bff", ValueA: "1", ValueB: "0.9995117", Ulps: 1, Count: 1}},
		{"e4m3", 2, []byte{0x38, 0x39}, []byte{0x38, 0x3a}, Bytes{Element: 1, A: "39", B: "3a", ValueA: "1.125", ValueB: "1.25", Ulps: 1, Count: 1}},
		{"e5m2", 1, []byte{0x3c}, []byte{0x7c}, Bytes{A: "3c", B: "7c", ValueA: "1", ValueB: "+Inf", Ulps: 64, Count: 1}},
		{"e8m0", 1, []byte{0x7f}, []byte{0x81}, Bytes{A: "7f", B: "81", ValueA: "1", ValueB: "4", Ulps: 2, Count: 1}},
		{"e2m1", 4, []byte{0x21, 0x43}, []byte{0x21, 0x4d}, Bytes{Element: 2, A: "3", B: "d", ValueA: "1.5", ValueB: "-3", Ulps: 9, Count: 1}},
		{"e2m1", 3, []byte{0x21, 0x03}, []byte{0x51, 0x04}, Bytes{Element: 1, A: "2", B: "5", ValueA: "1", ValueB: "3", Ulps: 3, Count: 2}},
		{"int8", 1, []byte{0x7f}, []byte{0x80}, Bytes{A: "7f", B: "80", ValueA: "127", ValueB: "-128", Ulps: 255, Count: 1}},
		{"uint8", 2, []byte{9, 200}, []byte{9, 100}, Bytes{Element: 1, A: "c8", B: "64", ValueA: "200", ValueB: "100", Ulps: 100, Count: 1}},
		{"int16", 1, words[uint16](0xffff), words[uint16](1), Bytes{A: "ffff", B: "0001", ValueA: "-1", ValueB: "1", Ulps: 2, Count: 1}},
		{"int32", 1, words[uint32](0xfffffffe), words[uint32](3), Bytes{A: "fffffffe", B: "00000003", ValueA: "-2", ValueB: "3", Ulps: 5, Count: 1}},
		{"uint32", 1, words[uint32](0xfffffffe), words[uint32](3), Bytes{A: "fffffffe", B: "00000003", ValueA: "4294967294", ValueB: "3", Ulps: 4294967291, Count: 1}},
		{"int64", 2, words[uint64](1, 1<<63), words[uint64](1, 1<<63-1), Bytes{Element: 1, A: "8000000000000000", B: "7fffffffffffffff",
			ValueA: "-9223372036854775808", ValueB: "9223372036854775807", Ulps: math.MaxUint64, Count: 1}},
		{"uint64", 1, words[uint64](1 << 63), words[uint64](7), Bytes{A: "8000000000000000", B: "0000000000000007", ValueA: "9223372036854775808", ValueB: "7", Ulps: 1<<63 - 7, Count: 1}},
		{"bool", 3, []byte{1, 0, 1}, []byte{1, 1, 1}, Bytes{Element: 1, A: "00", B: "01", ValueA: "false", ValueB: "true", Ulps: 1, Count: 1}},
	} {
		a, b := t.TempDir(), t.TempDir()
		got, err := CompareDumps(dump(t, a, c.dtype, c.n, c.a), dump(t, b, c.dtype, c.n, c.b), a, b)
		require.NoError(t, err, c.dtype)
		got.integer = false
		c.want.Output, c.want.Of = "y", c.n
		require.Equal(t, &c.want, got, c.dtype)
	}
}

// A dump that cannot be used says why, and the verdict stays.
func TestDumpsThatDoNotConfirm(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(dir string, g *trace.Sig)
	}{
		{"gone", "y.bin: is missing", func(dir string, _ *trace.Sig) { require.NoError(t, os.Remove(filepath.Join(dir, "y.bin"))) }},
		{"a bit", "y.bin: is damaged: its bytes are not those of the record's digest", func(dir string, _ *trace.Sig) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "y.bin"), []byte{1, 2, 3, 5}, 0o644))
		}},
		{"short", "y.bin: is damaged", func(dir string, _ *trace.Sig) { require.NoError(t, os.Truncate(filepath.Join(dir, "y.bin"), 3)) }},
		{"long", "y.bin: 107374182400 bytes: must be at most 4", func(dir string, _ *trace.Sig) { require.NoError(t, os.Truncate(filepath.Join(dir, "y.bin"), 100<<30)) }},
		{"a device", "is a device or socket: must be a regular file", func(dir string, _ *trace.Sig) {
			require.NoError(t, os.Remove(filepath.Join(dir, "y.bin")))
			require.NoError(t, os.Symlink(os.DevNull, filepath.Join(dir, "y.bin")))
		}},
		{"elsewhere", `dump "../y.bin": must be a file inside the trace`, func(_ string, g *trace.Sig) { g.Dump = "../y.bin" }},
		{"many elements", "the record has 2305843009213693952 elements of shape [4]", func(_ string, g *trace.Sig) { g.Numel = 1 << 61 }},
		{"less than none", "the record has -1 elements of shape [4]", func(_ string, g *trace.Sig) { g.Numel = -1 }},
	} {
		dirs := [2]string{t.TempDir(), t.TempDir()}
		sigs := [2]trace.Sig{dump(t, dirs[0], "uint8", 4, []byte{1, 2, 3, 4}), dump(t, dirs[1], "uint8", 4, []byte{1, 2, 3, 9})}
		for side := range sigs {
			good := sigs[side]
			c.change(dirs[side], &sigs[side])
			r := confirmed(t, sigs, dirs)
			require.False(t, r.Confirmed, c.name)
			require.Nil(t, r.Bytes, c.name)
			require.Equal(t, "origin", r.First.Verdict, c.name)
			require.Regexp(t, "^unconfirmed: ", r.Evidence[len(r.Evidence)-1], c.name)
			require.Contains(t, r.Evidence[len(r.Evidence)-1], c.want, c.name)
			require.NotContains(t, r.Evidence, unconfirmed, c.name)
			sigs[side] = good
			_ = os.Remove(filepath.Join(dirs[side], "y.bin"))
			require.NoError(t, os.WriteFile(filepath.Join(dirs[side], "y.bin"), []byte{1, 2, 3, byte(4 + 5*side)}, 0o644))
		}
		r := confirmed(t, sigs, dirs)
		require.True(t, r.Confirmed, c.name)
		require.Equal(t, 3, r.Bytes.Element)
	}

	dirs := [2]string{t.TempDir(), t.TempDir()}
	r := confirmed(t, [2]trace.Sig{dump(t, dirs[0], "fp6", 4, []byte{1, 2, 3}), dump(t, dirs[1], "fp6", 4, []byte{1, 2, 4})}, dirs)
	require.False(t, r.Confirmed)
	require.Equal(t, `unconfirmed: the bytes of y: dtype "fp6" is not known, so they cannot be read`, r.Evidence[len(r.Evidence)-1])
	r = confirmed(t, [2]trace.Sig{dump(t, dirs[0], "fp6", 4, []byte{1, 2, 3}), dump(t, dirs[1], "uint8", 3, []byte{1, 2, 4})}, dirs)
	require.True(t, r.Confirmed)
	require.Nil(t, r.Bytes)
	require.Equal(t, "confirmed by the dumped bytes: y is fp6 [4] and uint8 [3]", r.Evidence[len(r.Evidence)-1])

	// What one output cannot settle, another may.
	a, b := rec("op", "l", "x", nil, nil), rec("op", "l", "x", nil, nil)
	gone := dump(t, dirs[0], "uint8", 1, []byte{1})
	gone.Dump, gone.Name = "z.bin", "z"
	other := gone
	other.Digest = "?"
	a.Out = []trace.Sig{gone, dump(t, dirs[0], "uint8", 1, []byte{1})}
	b.Out = []trace.Sig{other, dump(t, dirs[1], "uint8", 1, []byte{3})}
	r = compare(t, "op", []trace.Record{a}, []trace.Record{b})
	r.Confirm(dirs[0], dirs[1])
	require.True(t, r.Confirmed)
	require.EqualValues(t, 2, r.Bytes.Ulps)
	require.Contains(t, r.Evidence[len(r.Evidence)-1], "z.bin: is missing")
}

// confirmed compares two runs of one Call that wrote these.
func confirmed(t *testing.T, out [2]trace.Sig, dirs [2]string) *Report {
	t.Helper()
	a, b := rec("op", "l", "x", nil, nil), rec("op", "l", "x", nil, nil)
	a.Out, b.Out = []trace.Sig{out[0]}, []trace.Sig{out[1]}
	r := compare(t, "op", []trace.Record{a}, []trace.Record{b})
	r.Confirm(dirs[0], dirs[1])
	return r
}
