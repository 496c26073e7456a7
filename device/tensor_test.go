package device

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"firstbit/lowp"
)

func tensorOf(f lowp.Format, values ...float64) *Tensor {
	t := NewTensor(f, len(values))
	for i, v := range values {
		t.Set(i, v)
	}
	return t
}

func TestTensorHoldsItsFormat(t *testing.T) {
	third := map[lowp.Format]float64{
		lowp.FP32: float64(float32(1.0 / 3)), lowp.BF16: 0.333984375, lowp.FP16: 0.333251953125, lowp.FP64: 1.0 / 3, lowp.INT32: 0,
	}
	for f, want := range third {
		x := NewTensor(f, 2, 3, 4)
		require.Equal(t, []int{2, 3, 4}, x.Shape())
		require.Equal(t, [4]int{24, 6, 4, 3}, [4]int{x.Len(), x.Rows(), x.Cols(), x.Dim(1)})
		x.Set(5, 1.0/3)
		require.Equal(t, want, x.Value(5), f)
		y := NewTensor(f, 2, 3, 4)
		y.CopyFrom(x)
		require.Equal(t, want, y.Value(5), f)
	}
	narrow := NewTensor(lowp.BF16, 1)
	narrow.CopyFrom(tensorOf(lowp.FP32, 1.0/3))
	require.Equal(t, 0.333984375, narrow.Value(0), "CopyFrom rounds")
	require.Panics(t, func() { narrow.CopyFrom(NewTensor(lowp.BF16, 2)) })
	require.Zero(t, NewTensor(lowp.FP32, 0, 3).Len())
}

// docs/facts.md, Fingerprints: torch.hash_tensor mode 0.
func TestXORKnownAnswers(t *testing.T) {
	inf, negzero := math.Inf(1), math.Copysign(0, -1)
	for _, c := range []struct {
		f    lowp.Format
		x    []float64
		want uint64
	}{
		{lowp.FP32, []float64{1}, 0x3ff0000000000000},
		{lowp.FP32, []float64{-1}, 0xbff0000000000000},
		{lowp.FP32, []float64{1, 2, 3}, 0x3ff8000000000000},
		{lowp.FP32, []float64{0, 1, 2, 3}, 0x3ff8000000000000},
		{lowp.FP32, []float64{1.5, -2.25, 3}, 0xbff2000000000000},
		{lowp.FP32, []float64{0}, 0},
		{lowp.FP32, []float64{negzero}, 0x8000000000000000},
		{lowp.FP64, []float64{0.1}, 0x3fb999999999999a},
		{lowp.FP32, []float64{0.1}, 0x3fb99999a0000000},
		{lowp.BF16, []float64{0.1}, 0x3fb9a00000000000},
		{lowp.FP32, []float64{inf}, 0x7ff0000000000000},
		{lowp.FP16, []float64{inf}, 0x7ff0000000000000},
		{lowp.INT32, []float64{-1}, 0xffffffffffffffff},
		{lowp.INT32, []float64{-3, -2, -1, 0}, 0xfffffffffffffffc},
		{lowp.INT32, []float64{-128}, 0xffffffffffffff80}, // int8's answer: sign extension is the same
		{lowp.INT32, []float64{0, 1, 2, 3}, 0},
		{lowp.INT32, []float64{0, 1, 2, 3, 4, 5, 6, 7}, 0},
		{lowp.FP32, []float64{0.7, 0.7}, 0}, // [a,a]
		{lowp.FP32, nil, 0},
	} {
		require.Equal(t, c.want, tensorOf(c.f, c.x...).XOR(), "%s %v", c.f, c.x)
	}
}

// What XOR cannot see (docs/facts.md, Fingerprints), the Digest beside it does.
func TestDigestSeesWhatXORDoesNot(t *testing.T) {
	scalar := func(f lowp.Format, shape ...int) *Tensor { return NewTensor(f, shape...) }
	for name, pair := range map[string][2]*Tensor{
		"zeros of another length": {scalar(lowp.FP32, 4), scalar(lowp.FP32, 5)},
		"another shape":           {scalar(lowp.FP32, 2, 3), scalar(lowp.FP32, 3, 2)},
		"another rank":            {scalar(lowp.FP32, 6), scalar(lowp.FP32, 1, 6)},
		"a pair that cancels":     {tensorOf(lowp.FP32, 2, 2), tensorOf(lowp.FP32, 3, 3)},
		"a permutation":           {tensorOf(lowp.FP32, 1, 2, 3), tensorOf(lowp.FP32, 2, 1, 3)},
		"bf16 and fp32":           {tensorOf(lowp.FP32, 1, 2), tensorOf(lowp.BF16, 1, 2)},
		"fp16 and bf16":           {tensorOf(lowp.FP16, 0, 0), tensorOf(lowp.BF16, 0, 0)},
		"integers from 0 up":      {tensorOf(lowp.INT32, 0, 1, 2, 3), tensorOf(lowp.INT32, 0, 1, 2, 3, 4, 5, 6, 7)},
		"fp32 and int32 zeros":    {tensorOf(lowp.FP32, 0), tensorOf(lowp.INT32, 0)},
	} {
		require.Equal(t, pair[0].XOR(), pair[1].XOR(), name)
		require.NotEqual(t, pair[0].Digest(nil), pair[1].Digest(nil), name)
	}
	require.NotEqual(t, tensorOf(lowp.FP32, 0).Digest(nil), tensorOf(lowp.FP32, math.Copysign(0, -1)).Digest(nil))
	require.Equal(t, tensorOf(lowp.BF16, 1, 2).Digest(nil), tensorOf(lowp.BF16, 1, 2).Digest(make([]byte, 1)), "pure")
}

// The definition of docs/traces.md, Digests, with the bytes spelled out here.
func TestDigestIsItsDefinition(t *testing.T) {
	values := []float64{1, -2.5, 0.1, 3, 0, -7}
	for f, element := range map[lowp.Format]func(float64) []byte{
		lowp.FP32: func(v float64) []byte {
			return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v)))
		},
		lowp.FP64: func(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) },
		lowp.INT32: func(v float64) []byte {
			return binary.LittleEndian.AppendUint32(nil, uint32(int32(v)))
		},
		lowp.BF16: func(v float64) []byte { // the upper half of the fp32, which Round has made exact
			return binary.LittleEndian.AppendUint16(nil, uint16(math.Float32bits(lowp.BF16.Round(float32(v)))>>16))
		},
	} {
		x := NewTensor(f, 2, 3)
		var elements []byte
		for i, v := range values {
			x.Set(i, v)
			elements = append(elements, element(v)...)
		}
		inner := xxh3.Hash128(elements)
		head := append([]byte(f.String()), 0)
		for _, n := range []uint64{2, 2, 3} { // rank, then dims
			head = binary.LittleEndian.AppendUint64(head, n)
		}
		head = binary.BigEndian.AppendUint64(head, inner.Hi) // xxHash's canonical form
		head = binary.BigEndian.AppendUint64(head, inner.Lo)
		outer := xxh3.Hash128(head)
		require.Equal(t, fmt.Sprintf("%016x%016x", outer.Hi, outer.Lo), fmt.Sprintf("%x", x.Digest(nil)), f)
	}
	// XXH3-128 of nothing with seed 0, the published test vector.
	require.Equal(t, "99aa06d3014798d86001c324468d497f", fmt.Sprintf("%x", xxh3.Hash128(nil).Bytes()))
}

// A tensor without elements has a shape and a fingerprint.
func TestEmptyTensor(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64, lowp.INT32} {
		a, b := NewTensor(f, 0, 3), NewTensor(f, 0, 4)
		require.Equal(t, []int{0, 3}, a.Shape())
		require.Zero(t, a.XOR())
		require.NotEqual(t, a.Digest(nil), b.Digest(nil))
	}
}
