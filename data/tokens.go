package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// openTokens reads a token file. Alone, X.bin is uint16, little-endian; with X.idx beside it, the two
// are Megatron's indexed dataset.
func openTokens(path string) (*Corpus, error) {
	bin, err := readFile(path)
	if err != nil {
		return nil, err
	}
	named := path // the file an error is about
	index := strings.TrimSuffix(path, ".bin") + ".idx"
	var tokens []uint16
	documents := []int32{0}
	if _, err = os.Stat(index); errors.Is(err, fs.ErrNotExist) {
		tokens, err = decodeUint16(bin)
	} else {
		var idx []byte
		if idx, err = readFile(index); err != nil {
			return nil, err
		}
		named = index
		tokens, documents, err = decodeIndexed(bin, idx)
	}
	if err != nil {
		return nil, fail(named, "%w", err)
	}
	if len(tokens) == 0 {
		return nil, fail(named, "holds no tokens: must hold at least one")
	}
	return &Corpus{Name: path, Tokens: tokens, Documents: documents, Vocab: int(slices.Max(tokens)) + 1}, nil
}

func decodeUint16(b []byte) ([]uint16, error) {
	if len(b)%2 != 0 {
		return nil, fmt.Errorf("%d bytes: must be uint16, an even number of bytes", len(b))
	}
	tokens := make([]uint16, len(b)/2)
	for i := range tokens {
		tokens[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return tokens, nil
}

// index is a Megatron .idx file, version 1, taken apart: all numbers little-endian.
//
//	magic "MMIDIDX\0\0" | version u64 | dtype u8 | sequences u64 | documents u64
//	| lengths i32×sequences | offsets in bytes i64×sequences | first sequences i64×documents
//	| modes i8×sequences, of multimodal data only
//
// A document is the sequences from its first to the next one's; the last entry is behind the last sequence. Modes are not read.
//
// Source: Megatron Core, datasets/indexed_dataset.py, _IndexReader.
type index struct {
	dtype            dtype
	n                int
	lengths, offsets []byte
	documents        []byte
}

const (
	indexMagic  = "MMIDIDX\x00\x00"
	indexHeader = len(indexMagic) + 8 + 1 + 8 + 8
)

// dtype is how a token is stored.
type dtype struct {
	size   int
	signed bool
}

// dtypes is by Megatron's codes; 6 and 7 are floats and hold no tokens.
var dtypes = [...]dtype{1: {1, false}, 2: {1, true}, 3: {2, true}, 4: {4, true}, 5: {8, true}, 8: {2, false}}

func parseIndex(b []byte) (index, error) {
	if len(b) < indexHeader || string(b[:len(indexMagic)]) != indexMagic {
		return index{}, fmt.Errorf("is no Megatron index: must start with MMIDIDX and a header of %d bytes", indexHeader)
	}
	h, body := b[len(indexMagic):indexHeader], b[indexHeader:]
	if v := binary.LittleEndian.Uint64(h); v != 1 {
		return index{}, fmt.Errorf("index version %d: must be 1", v)
	}
	code := int(h[8])
	if code >= len(dtypes) || dtypes[code].size == 0 {
		return index{}, fmt.Errorf("dtype code %d: must be 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 (int64) or 8 (uint16)", code)
	}
	n, documents := binary.LittleEndian.Uint64(h[9:]), binary.LittleEndian.Uint64(h[17:])
	have := uint64(len(body))
	// Divided, not multiplied: the counts may be any 64 bits.
	if n > have/12 || documents > (have-12*n)/8 {
		return index{}, fmt.Errorf("is truncated: %d bytes after the header: must be 12 for each of %d sequences and 8 for each of %d documents", have, n, documents)
	}
	return index{dtypes[code], int(n), body[:4*n], body[4*n : 12*n], body[12*n:][:8*documents]}, nil
}

// begins are the tokens that documents begin at, where first says that of every sequence. Empty documents are none.
func (x index) begins(first []int32) ([]int32, error) {
	all, before := []int32{0}, int64(0)
	for i := 0; i < len(x.documents); i += 8 {
		at := int64(binary.LittleEndian.Uint64(x.documents[i:]))
		if at < before || at > int64(x.n) {
			return nil, fmt.Errorf("document %d begins with sequence %d: must be from %d, where the one before begins, to %d, the sequences", i/8, at, before, x.n)
		}
		if token := first[at]; token > all[len(all)-1] && token < first[x.n] {
			all = append(all, token)
		}
		before = at
	}
	return all, nil
}

// span is where sequence i lies in the .bin file: its first byte and its tokens.
func (x index) span(i int) (offset, length int64) {
	return int64(binary.LittleEndian.Uint64(x.offsets[8*i:])), int64(int32(binary.LittleEndian.Uint32(x.lengths[4*i:])))
}

// total counts the tokens of all sequences, each of which must lie in the .bin file.
func (x index) total(size int64) (int64, error) {
	room, total := size/int64(x.dtype.size), int64(0)
	for i := range x.n {
		offset, length := x.span(i)
		if offset < 0 || offset > size || length < 0 || length > (size-offset)/int64(x.dtype.size) {
			return 0, fmt.Errorf("sequence %d, %d tokens at byte %d: must lie in the .bin file of %d bytes", i, length, offset, size)
		}
		// A small index that points often at the same bytes must not fill the memory.
		if total += length; total > room {
			return 0, fmt.Errorf("sequence %d: sequences overlap: together they must hold at most the %d tokens of the .bin file", i, room)
		}
	}
	return total, nil
}

// decodeIndexed joins the sequences in index order, and says where documents begin.
func decodeIndexed(bin, idx []byte) (tokens []uint16, documents []int32, err error) {
	x, err := parseIndex(idx)
	if err != nil {
		return nil, nil, err
	}
	total, err := x.total(int64(len(bin)))
	if err != nil {
		return nil, nil, err
	}
	tokens = make([]uint16, 0, total)
	first := make([]int32, 0, x.n+1) // tokens of sequences, and behind the last
	for i := range x.n {
		first = append(first, int32(len(tokens)))
		offset, length := x.span(i)
		at := bin[offset:]
		for j := range length {
			v := x.dtype.token(at[j*int64(x.dtype.size):])
			if v < 0 || v >= 1<<16 {
				return nil, nil, fmt.Errorf("sequence %d, token %d is %d: must be from 0 to 65535", i, j, v)
			}
			tokens = append(tokens, uint16(v))
		}
	}
	documents, err = x.begins(append(first, int32(len(tokens))))
	return tokens, documents, err
}

// token is the value at the start of b.
func (d dtype) token(b []byte) int64 {
	v := uint64(0)
	for i := range d.size {
		v |= uint64(b[i]) << (8 * i)
	}
	if d.signed {
		shift := 64 - 8*d.size
		return int64(v<<shift) >> shift
	}
	return int64(v)
}
