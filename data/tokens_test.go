package data

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// indexed builds a Megatron dataset of sequences, all in one document.
func indexed(code byte, size int, seqs ...[]int) (bin, idx []byte) {
	le := binary.LittleEndian
	idx = le.AppendUint64([]byte(indexMagic), 1)
	idx = le.AppendUint64(append(idx, code), uint64(len(seqs)))
	idx = le.AppendUint64(idx, 2)
	var offsets []byte
	for _, s := range seqs {
		idx = le.AppendUint32(idx, uint32(len(s)))
		offsets = le.AppendUint64(offsets, uint64(len(bin)))
		for _, v := range s {
			bin = append(bin, le.AppendUint64(nil, uint64(v))[:size]...)
		}
	}
	idx = append(idx, offsets...)
	return bin, le.AppendUint64(le.AppendUint64(idx, 0), uint64(len(seqs)))
}

func TestIndexedDataset(t *testing.T) {
	for code, d := range dtypes {
		if d.size == 0 {
			continue
		}
		bin, idx := indexed(byte(code), d.size, []int{1, 2, 3}, []int{}, []int{100})
		got, _, err := decodeIndexed(bin, idx)
		require.NoError(t, err)
		require.Equal(t, []uint16{1, 2, 3, 100}, got)
		got, _, err = decodeIndexed(bin, append(idx, 0, 0, 0)) // modes follow
		require.NoError(t, err)
		require.Len(t, got, 4)

		_, _, err = decodeIndexed(bin[:len(bin)-1], idx)
		require.ErrorContains(t, err, "sequence 2, 1 tokens at byte")
		for short := range len(idx) {
			_, _, err = decodeIndexed(bin, idx[:short])
			require.Error(t, err, "index of %d bytes", short)
		}
	}
}

// The bytes Megatron's writer makes of sequences [5 6 7] and [8], two documents, int32: each
// field packed by hand after _IndexWriter.write.
func TestIndexedDatasetOfMegatron(t *testing.T) {
	idx, err := hex.DecodeString(strings.Join(strings.Fields(`
		4d4d4944494458 0000  0100000000000000  04  0200000000000000  0300000000000000
		03000000 01000000    0000000000000000 0c00000000000000
		0000000000000000 0100000000000000 0200000000000000`), ""))
	require.NoError(t, err)
	bin, err := hex.DecodeString("05000000060000000700000008000000")
	require.NoError(t, err)

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.bin"), bin, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.idx"), idx, 0o644))
	c, err := Open(filepath.Join(dir, "x.bin"), 9)
	require.NoError(t, err)
	require.Equal(t, []uint16{5, 6, 7, 8}, c.Tokens)
	require.Equal(t, []int32{0, 3}, c.Documents)
	require.Equal(t, 9, c.Vocab)
	_, err = Open(filepath.Join(dir, "x.bin"), 8)
	require.ErrorContains(t, err, "x.bin: token 8 at 3: must be below model.vocab (8)")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.idx"), idx[:60], 0o644))
	_, err = Open(filepath.Join(dir, "x.bin"), 9)
	require.ErrorContains(t, err, "x.idx: is truncated: 26 bytes after the header: must be 12 for each of 2 sequences and 8 for each of 3 documents")
}

func TestIndexedDatasetRefuses(t *testing.T) {
	const version, code, sequences, documents, length, offset = 9, 17, 18, 26, 34, 42
	for _, tt := range []struct {
		name string
		at   int
		put  []byte
		want string
	}{
		{"magic", 0, []byte{'m'}, "is no Megatron index: must start with MMIDIDX"},
		{"version", version, []byte{2}, "index version 2: must be 1"},
		{"no dtype", code, []byte{0}, "dtype code 0: must be 1 (uint8)"},
		{"a float", code, []byte{7}, "dtype code 7: must be"},
		{"above all dtypes", code, []byte{9}, "dtype code 9: must be"},
		{"2^63 sequences", sequences + 7, []byte{0x80}, "is truncated"},
		{"2^63 documents", documents + 7, []byte{0x80}, "is truncated"},
		{"a negative length", length + 3, []byte{0x80}, "must lie in the .bin file of 6 bytes"},
		{"a long sequence", length, []byte{3}, "sequence 1: sequences overlap: together they must hold at most the 3 tokens"},
		{"a negative offset", offset + 7, []byte{0x80}, "must lie in the .bin file"},
		{"an offset beyond", offset, []byte{7}, "sequence 0, 2 tokens at byte 7: must lie"},
		{"a document beyond", offset + 24, []byte{3}, "document 1 begins with sequence 3: must be from 0, where the one before begins, to 2, the sequences"},
		{"documents that go back", offset + 16, []byte{3}, "document 0 begins with sequence 3: must be"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin, idx := indexed(8, 2, []int{1, 2}, []int{3})
			_, _, err := decodeIndexed(bin, idx)
			require.NoError(t, err)
			copy(idx[tt.at:], tt.put)
			_, _, err = decodeIndexed(bin, idx)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestTokensOfEveryWidth(t *testing.T) {
	for _, tt := range []struct {
		code byte
		v    int
		want string // of the value refused; "" = accepted
	}{
		{1, 255, ""}, {2, 127, ""}, {2, -1, "-1"}, {3, 32767, ""}, {3, -32768, "-32768"},
		{4, 65535, ""}, {4, 65536, "65536"}, {4, -1, "-1"}, {5, 65535, ""}, {5, 1 << 40, "1099511627776"}, {5, -1 << 63, "-9223372036854775808"},
		{8, 65535, ""}, {8, 0, ""},
	} {
		bin, idx := indexed(tt.code, dtypes[tt.code].size, []int{0, tt.v})
		got, _, err := decodeIndexed(bin, idx)
		if tt.want == "" {
			require.NoError(t, err)
			require.Equal(t, []uint16{0, uint16(tt.v)}, got)
			continue
		}
		require.EqualError(t, err, "sequence 0, token 1 is "+tt.want+": must be from 0 to 65535")
	}
}

func FuzzIndexed(f *testing.F) {
	for code, d := range dtypes {
		bin, idx := indexed(byte(code), d.size, []int{1, 2}, nil, []int{3})
		f.Add(bin, idx)
	}
	f.Fuzz(func(t *testing.T, bin, idx []byte) {
		tokens, documents, err := decodeIndexed(bin, idx)
		if err == nil {
			require.LessOrEqual(t, len(tokens), len(bin))
			require.True(t, slices.IsSorted(documents) && documents[0] == 0 && int(documents[len(documents)-1]) <= len(tokens))
		}
	})
}

func FuzzUint16(f *testing.F) {
	f.Add([]byte{1, 0, 255, 255})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		tokens, err := decodeUint16(b)
		require.Equal(t, len(b)%2 != 0, err != nil)
		if err != nil {
			return
		}
		var back []byte
		for _, v := range tokens {
			back = binary.LittleEndian.AppendUint16(back, v)
		}
		require.Equal(t, string(b), string(back))
	})
}
