package data

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
)

func TestEmbeddedIsPinned(t *testing.T) {
	c := Embedded()
	require.Len(t, c.Tokens, 1<<18)
	text := make([]byte, len(c.Tokens))
	for i, tok := range c.Tokens {
		require.Less(t, tok, uint16(128))
		text[i] = byte(tok)
	}
	require.Equal(t, uint64(0xd779f3fc8ebb08b5), xxh3.Hash(text))
	require.InDelta(t, 3.6, c.Unigram(), 0.2)
}

func write(t *testing.T, name string, b []byte) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, b, 0o644))
	return path
}

func TestOpenRefuses(t *testing.T) {
	idx := write(t, "x.idx", []byte("MMIDIDX\x00\x00short"))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(idx), "x.bin"), []byte{1, 0}, 0o644))
	for path, want := range map[string]string{
		"/nonexistent/file":                  "no such file",
		write(t, "a.txt", nil):               "is empty",
		write(t, "b.txt", []byte{'a', 0}):    "is binary",
		write(t, "c.txt", []byte{0xff, 'a'}): "is binary",
		write(t, "d.bin", []byte{1}):         "even number",
		write(t, "e.bin", nil):               "no tokens",
		write(t, "f.bin", []byte{0, 9}):      "below model.vocab (256)",
		t.TempDir():                          "no text files",
		filepath.Dir(idx) + "/x.bin":         "no Megatron index",
	} {
		_, err := Open(path, 256)
		require.ErrorContains(t, err, want, path)
		require.NotContains(t, err.Error(), "\n")
	}
	c, err := Open(write(t, "g.txt", []byte("abc")), 256)
	require.NoError(t, err)
	_, err = NewSampler(c, 3, 1)
	require.ErrorContains(t, err, "at least seq+1 (4)")
}

func TestFolderIsSortedText(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.txt": "B", "a.txt": "A", ".hidden": "H", "z.o": "\x00"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	c, err := Open(dir, 256)
	require.NoError(t, err)
	require.Equal(t, bytesOf([]byte("A\nB\n")), c.Tokens)
}

// indexed builds a Megatron index over sequences of tokens.
func indexed(code byte, size int, seqs ...[]int) (bin, idx []byte) {
	idx = append(idx, indexMagic...)
	idx = binary.LittleEndian.AppendUint64(idx, 1)
	idx = append(idx, code)
	idx = binary.LittleEndian.AppendUint64(idx, uint64(len(seqs)))
	idx = binary.LittleEndian.AppendUint64(idx, 1)
	var offsets []byte
	for _, s := range seqs {
		idx = binary.LittleEndian.AppendUint32(idx, uint32(len(s)))
		offsets = binary.LittleEndian.AppendUint64(offsets, uint64(len(bin)))
		for _, v := range s {
			b := binary.LittleEndian.AppendUint64(nil, uint64(v))
			bin = append(bin, b[:size]...)
		}
	}
	return bin, append(idx, offsets...)
}

func TestIndexedDataset(t *testing.T) {
	for code, size := range dtypes {
		bin, idx := indexed(code, size, []int{1, 2, 3}, []int{}, []int{100})
		got, err := decodeIndexed(bin, idx)
		require.NoError(t, err)
		require.Equal(t, []uint16{1, 2, 3, 100}, got)
		_, err = decodeIndexed(bin[:len(bin)-1], idx)
		require.ErrorContains(t, err, "outside")
		_, err = decodeIndexed(bin, idx[:len(idx)-1])
		require.ErrorContains(t, err, "truncated")
	}
	bin, idx := indexed(4, 4, []int{-1})
	_, err := decodeIndexed(bin, idx)
	require.ErrorContains(t, err, "from 0 to 65535")
}

func TestSamplerDealsEveryWindowOnceAnEpoch(t *testing.T) {
	c := &Corpus{Tokens: make([]uint16, 41)}
	for i := range c.Tokens {
		c.Tokens[i] = uint16(i)
	}
	s, err := NewSampler(c, 4, 7)
	require.NoError(t, err)
	var first []int32
	for epoch := range 2 {
		seen := map[int32]bool{}
		for range 5 {
			tokens, targets := make([]int32, 8), make([]int32, 8)
			s.Next(tokens, targets)
			for i := range tokens {
				require.Equal(t, tokens[i]+1, targets[i])
			}
			seen[tokens[0]], seen[tokens[4]] = true, true
			if epoch == 0 {
				first = append(first, tokens...)
			}
		}
		require.Len(t, seen, 10)
	}
	// Consumed is the whole state.
	r, err := NewSampler(c, 4, 7)
	require.NoError(t, err)
	r.Consumed = 6
	tokens, targets := make([]int32, 4), make([]int32, 4)
	r.Next(tokens, targets)
	require.Equal(t, first[24:28], tokens)
}

func FuzzIndexed(f *testing.F) {
	bin, idx := indexed(8, 2, []int{1, 2}, []int{3})
	f.Add(bin, idx)
	f.Fuzz(func(t *testing.T, bin, idx []byte) {
		if tokens, err := decodeIndexed(bin, idx); err == nil {
			require.LessOrEqual(t, len(tokens), len(bin))
		}
	})
}
