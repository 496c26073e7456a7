package data

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

// openTokens reads a token file: with an index of the same name beside it, Megatron's
// indexed dataset; alone, uint16 little-endian.
func openTokens(path string) (*Corpus, error) {
	bin, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("data %s: %w", path, reason(err))
	}
	index := strings.TrimSuffix(path, ".bin") + ".idx"
	idx, err := os.ReadFile(index)
	var tokens []uint16
	switch {
	case os.IsNotExist(err):
		tokens, err = decodeUint16(bin)
	case err == nil:
		path = index
		tokens, err = decodeIndexed(bin, idx)
	}
	if err != nil {
		return nil, fmt.Errorf("data %s: %w", path, reason(err))
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("data %s: holds no tokens", path)
	}
	return &Corpus{Name: path, Tokens: tokens}, nil
}

func decodeUint16(b []byte) ([]uint16, error) {
	if len(b)%2 != 0 {
		return nil, fmt.Errorf("%d bytes: a token file holds uint16, an even number of bytes", len(b))
	}
	tokens := make([]uint16, len(b)/2)
	for i := range tokens {
		tokens[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return tokens, nil
}

// The index of Megatron's indexed dataset, version 1: magic, version uint64, dtype code uint8,
// sequences and documents uint64; lengths int32, offsets int64, document starts int64.
const indexMagic = "MMIDIDX\x00\x00"

// dtypes maps Megatron's codes to bytes a token and whether they are signed.
var dtypes = map[byte]int{1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 8: 2}

// decodeIndexed joins the sequences in index order.
func decodeIndexed(bin, idx []byte) ([]uint16, error) {
	const header = len(indexMagic) + 8 + 1 + 8 + 8
	if len(idx) < header || string(idx[:len(indexMagic)]) != indexMagic {
		return nil, fmt.Errorf("is no Megatron index: must start with MMIDIDX and a header of %d bytes", header)
	}
	h := idx[len(indexMagic):]
	if v := binary.LittleEndian.Uint64(h); v != 1 {
		return nil, fmt.Errorf("index version %d: must be 1", v)
	}
	size, code := dtypes[h[8]], h[8]
	if size == 0 {
		return nil, fmt.Errorf("dtype code %d: must be 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 (int64) or 8 (uint16)", code)
	}
	n := binary.LittleEndian.Uint64(h[9:])
	body := idx[header:]
	if n > uint64(len(body))/12 {
		return nil, fmt.Errorf("is truncated: %d sequences need %d bytes of index, there are %d", n, 12*n, len(body))
	}
	var tokens []uint16
	for i := range int(n) {
		length := int64(int32(binary.LittleEndian.Uint32(body[4*i:])))
		offset := int64(binary.LittleEndian.Uint64(body[4*int(n)+8*i:]))
		if length < 0 || offset < 0 || offset > int64(len(bin)) || length > (int64(len(bin))-offset)/int64(size) {
			return nil, fmt.Errorf("sequence %d lies outside the .bin file of %d bytes", i, len(bin))
		}
		if int64(len(tokens))+length > int64(len(bin)) {
			return nil, fmt.Errorf("sequences overlap: they hold more tokens than the .bin file has bytes")
		}
		for j := range int(length) {
			v, ok := token(bin[int(offset)+j*size:], code, size)
			if !ok {
				return nil, fmt.Errorf("sequence %d: token %d: must be from 0 to 65535", i, j)
			}
			tokens = append(tokens, v)
		}
	}
	return tokens, nil
}

func token(b []byte, code byte, size int) (uint16, bool) {
	v := uint64(0)
	for i := range size {
		v |= uint64(b[i]) << (8 * i)
	}
	signed := code >= 2 && code <= 5
	if signed && v>>(8*size-1) == 1 {
		return 0, false
	}
	return uint16(v), v < 1<<16
}
