package checkpoint

import (
	"bytes"
	"encoding/binary"
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

// roomy bounds files that are small.
var roomy = Limit{1 << 20, 1 << 16}

// raw is a file of a header and data as they stand.
func raw(header string, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

// filled is a tensor of values that every format holds.
func filled(f lowp.Format, shape ...int) *device.Tensor {
	t := device.NewTensor(f, shape...)
	for i := range t.Len() {
		t.Set(i, float64(i*i-7))
	}
	return t
}

func TestFilesRoundTrip(t *testing.T) {
	var want []Tensor
	for _, f := range formats {
		want = append(want, Of("x."+f.ours.String(), filled(f.ours, 2, 3)))
	}
	want = append(want, Of("a scalar \"é\"", filled(lowp.FP64)), Of("empty", device.NewTensor(lowp.FP32, 0, 4)))
	path := filepath.Join(t.TempDir(), "x.safetensors")
	require.NoError(t, WriteFile(path, want))
	f, err := ReadFile(path, roomy)
	require.NoError(t, err)
	require.Len(t, f.Tensors, len(want))
	for _, w := range want {
		got, ok := f.Tensor(w.Name)
		require.True(t, ok, w.Name)
		require.Equal(t, w.Shape, got.Shape)
		require.Equal(t, w.format, got.format)
		require.True(t, bytes.Equal(w.data, got.data), w.Name)
		x, err := got.Values()
		require.NoError(t, err)
		for i, v := range x {
			require.Equal(t, float64(i*i-7), v)
		}
	}
	_, ok := f.Tensor("absent")
	require.False(t, ok)
	again, err := Encode(f.Tensors)
	require.NoError(t, err)
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, written, again, "the order of the tensors reaches no byte")
	_, err = Encode([]Tensor{want[0], want[0]})
	require.EqualError(t, err, `tensor "x.fp64": is there twice`)
}

// A file as the format's definition lays it down, in each type.
// Source: the safetensors README, "Format".
func TestFileByItsDefinition(t *testing.T) {
	f, err := Decode(raw(`{"b":{"dtype":"I64","shape":[1],"data_offsets":[4,12]},"a":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},"__metadata__":{"k":"v"}}`,
		"\x80\x3f\x00\xc0\xfe\xff\xff\xff\xff\xff\xff\xff"), roomy.Header)
	require.NoError(t, err)
	a, err := f.Tensors[0].Values()
	require.NoError(t, err)
	require.Equal(t, []float64{1, -2}, a)
	b, err := f.Tensors[1].Values()
	require.NoError(t, err)
	require.Equal(t, []float64{-2}, b)
}

func TestBadFilesAreOneClearError(t *testing.T) {
	one := func(entry string) string { return fmt.Sprintf(`{"x":%s}`, entry) }
	for _, bad := range []struct {
		name, want string
		file       []byte
	}{
		{"empty", "header too small", nil},
		{"short", "header too small", []byte("1234567")},
		{"a header longer than the file", "invalid header length", raw("{}", "")[:9]},
		{"a header of 2⁶³ bytes", "must be at most", binary.LittleEndian.AppendUint64(nil, 1<<63)},
		{"no JSON", "invalid header", raw("{", "")},
		{"a list", "invalid header", raw("[]", "")},
		{"a text after the header", "invalid header", raw("{} {}", "")},
		{"a number for a tensor", "invalid header", raw(one("1"), "")},
		{"an unknown type", `"F8"`, raw(one(`{"dtype":"F8","shape":[1],"data_offsets":[0,1]}`), "1")},
		{"a negative extent", `"x"`, raw(one(`{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}`), "1")},
		{"a fractional extent", `"x"`, raw(one(`{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}`), "1")},
		{"a missing shape", `"x"`, raw(one(`{"dtype":"U8","data_offsets":[0,1]}`), "1")},
		{"one offset", `"x"`, raw(one(`{"dtype":"U8","shape":[1],"data_offsets":[0]}`), "1")},
		{"a key more", `"x"`, raw(one(`{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}`), "1")},
		{"offsets backwards", `"x"`, raw(one(`{"dtype":"U8","shape":[1],"data_offsets":[1,0]}`), "1")},
		{"offsets of another size", "offsets", raw(one(`{"dtype":"F32","shape":[2],"data_offsets":[0,4]}`), "1234")},
		{"a hole", `"x"`, raw(one(`{"dtype":"U8","shape":[1],"data_offsets":[1,2]}`), "12")},
		{"truncated data", "end before the file does, or after", raw(one(`{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`), "1234567")},
		{"data too many", "end before the file does, or after", raw(one(`{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`), "12345")},
		{"extents that overflow", "overflow", raw(one(`{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}`), "1234")},
		{"an extent beyond int32", "must be at most", raw(one(`{"dtype":"F32","shape":[0,4294967296],"data_offsets":[0,0]}`), "")},
	} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		require.NoError(t, os.WriteFile(path, bad.file, 0o666))
		_, err := ReadFile(path, roomy)
		require.ErrorContains(t, err, "checkpoint "+path+": ", bad.name)
		require.ErrorContains(t, err, bad.want, bad.name)
		require.NotContains(t, err.Error(), "\n", bad.name)
	}
	_, err := ReadFile("testdata/absent", roomy)
	require.EqualError(t, err, "checkpoint testdata/absent: no such file or directory")
	require.Error(t, WriteFile(filepath.Join(t.TempDir(), "no", "folder"), nil))
	f, err := Decode(raw(one(`{"dtype":"U8","shape":[1],"data_offsets":[0,1]}`), "1"), roomy.Header)
	require.NoError(t, err)
	_, err = f.Tensors[0].Values()
	require.EqualError(t, err, `tensor "x": type U8: must be F64, F32, BF16, F16, I64 or I32`)
}

// Whatever the bytes, an error or tensors whose elements are all there; and what was read is
// written as a file that reads the same.
func FuzzDecode(f *testing.F) {
	b, err := Encode([]Tensor{Of("a", filled(lowp.FP32, 2)), Of("b", filled(lowp.BF16, 3)), Of("c", filled(lowp.FP64))})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(raw("{}", ""))
	f.Add(raw(`{"x":{"dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[0,0]}}`, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Decode(b, roomy.Header)
		if err != nil {
			return
		}
		for _, x := range file.Tensors {
			v, err := x.Values()
			if err == nil && len(v) != x.Len() {
				t.Fatal(x.Name)
			}
		}
		again, err := Encode(file.Tensors)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Decode(again, roomy.Header)
		if err != nil || len(second.Tensors) != len(file.Tensors) {
			t.Fatal(err)
		}
		for i, x := range second.Tensors {
			if y := file.Tensors[i]; x.Name != y.Name && strings.ToValidUTF8(y.Name, "�") != x.Name || !bytes.Equal(x.data, y.data) {
				t.Fatal(x.Name)
			}
		}
	})
}

func TestValuesKeepEveryBit(t *testing.T) {
	d := device.NewTensor(lowp.FP64, 4)
	for i, v := range []float64{math.Copysign(0, -1), math.Inf(1), 5e-324, 0.1} {
		d.Set(i, v)
	}
	x, err := Of("x", d).Values()
	require.NoError(t, err)
	for i := range x {
		require.Equal(t, math.Float64bits(d.Value(i)), math.Float64bits(x[i]))
	}
}
