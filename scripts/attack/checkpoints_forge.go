//go:build unix

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/zeebo/xxh3"
)

// A forged checkpoint has the right digests everywhere: of its tensors, its files and the manifest. What is wrong is what it says.
type forgery struct {
	dir      string
	manifest value
}

func openForgery(dir string) (*forgery, error) {
	b, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return nil, err
	}
	f := &forgery{dir: dir}
	f.manifest, err = parse(b)
	return f, err
}

// close writes the manifest with its digest, which is the first field of that name.
func (f *forgery) close() error {
	return os.WriteFile(filepath.Join(f.dir, "manifest.json"), forgeDigest([]byte(f.manifest.String()), 0), 0o666)
}

// A safetensors is a file of tensors taken apart.
type safetensors struct {
	header value
	data   []byte
}

func openSafetensors(path string) (s safetensors, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	n := binary.LittleEndian.Uint64(b)
	s.data = b[8+n:]
	s.header, err = parse(b[8 : 8+n])
	return s, err
}

func (s safetensors) bytes() []byte {
	header := s.header.String()
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), s.data...)
}

// tensor is the bytes of a tensor.
func (s safetensors) tensor(name string) []byte {
	at := s.header.get(name).get("data_offsets")
	from, _ := strconv.Atoi(at.items[0].plain) // it is a file of ours
	to, _ := strconv.Atoi(at.items[1].plain)
	return s.data[from:to]
}

// put writes a rank's file, and what the manifest says of it.
func (f *forgery) put(rank int, s safetensors) error {
	b := s.bytes()
	of := &f.manifest.get("files").items[rank]
	of.get("bytes").plain, of.get("digest").plain = strconv.Itoa(len(b)), strconv.Quote(hashOf(b))
	return os.WriteFile(filepath.Join(f.dir, of.get("name").text()), b, 0o666)
}

// tensorDigest is what a manifest says of a tensor: of its type, its extents and a hash of its elements.
func tensorDigest(dtype string, shape []value, data []byte) string {
	b := append([]byte(dtype), 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(shape)))
	for _, extent := range shape {
		n, _ := strconv.ParseUint(extent.plain, 10, 64) // it is a manifest of ours
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	sum := xxh3.Hash128(data).Bytes()
	return hashOf(append(b, sum[:]...))
}

// forgeCheckpoint changes what a checkpoint says, and all digests with it.
func forgeCheckpoint(t *trial, dir string) (allowed, error) {
	f, err := openForgery(dir)
	if err != nil {
		return 0, err
	}
	may := asBeforeOr2
	rank := t.rand.IntN(len(f.manifest.get("files").items))
	name := f.manifest.get("files").items[rank].get("name").text()
	switch t.rand.IntN(10) {
	case 0:
		t.kind, t.what = "forged: a sparse file that the manifest wants", name
		return refusal, firstError(f.sparse(rank, name), f.close())
	case 1, 2, 3:
		t.kind, t.what = "forged: the manifest", mutate(t.rand, &f.manifest)
		return may, f.close()
	case 4, 5, 6:
		s, err := openSafetensors(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		t.kind, t.what = "forged: the header of a rank's file", name+" "+mutate(t.rand, &s.header)
		if err := f.put(rank, s); err != nil {
			return 0, err
		}
	default:
		if may, err = f.forgeTensor(t, rank, name); err != nil {
			return 0, err
		}
	}
	return may, f.close()
}

// sparse makes a rank's file one of 100 GB, and has the manifest say that it must be.
func (f *forgery) sparse(rank int, name string) error {
	const bytes = 100 << 30
	of := &f.manifest.get("files").items[rank]
	of.get("bytes").plain = strconv.Itoa(bytes)
	of.get("tensors").items[0].get("shape").items = []value{{plain: "2147483647"}, {plain: "12"}}
	return os.Truncate(filepath.Join(f.dir, name), bytes)
}

// counters are states that say how far a run is. The first decides which step continues.
var counters = []string{"train.step", "optim.step", "lr.position", "data.consumed"}

// integers are what elements of 32 bits become.
var integers = []uint32{0, 1, 9, 1 << 31, 1<<31 - 1, 1<<32 - 1, 1 << 30, 1<<32 - 5, 0x7f800000, 0x00000001, 0x3f800000, 0xff800000}

// forgeTensor sets elements of a tensor, of all ranks for what all have.
func (f *forgery) forgeTensor(t *trial, rank int, name string) (allowed, error) {
	s, err := openSafetensors(filepath.Join(f.dir, name))
	if err != nil {
		return 0, err
	}
	entries := f.manifest.get("files").items[rank].get("tensors")
	e := &entries.items[t.rand.IntN(len(entries.items))]
	may := anything
	t.kind = "forged: a tensor"
	if t.rand.IntN(2) == 0 {
		counter := pick(t.rand, counters)
		for i := range entries.items {
			if entries.items[i].get("name").text() == counter {
				e, t.kind = &entries.items[i], "forged: a counter"
				if counter == counters[0] {
					may = refusedLater
				}
			}
		}
	}
	tensor := e.get("name").text()
	data := s.tensor(tensor)
	before := string(data)
	for string(data) == before {
		v := pick(t.rand, integers)
		i := t.rand.IntN(max(len(data)/4, 1)) * 4
		if len(data) < 4 {
			data[0]++
			break
		}
		binary.LittleEndian.PutUint32(data[i:], v)
		t.what = fmt.Sprintf("%s of %s: %#x at byte %d", tensor, name, v, i)
	}
	e.get("digest").plain = strconv.Quote(tensorDigest(e.get("dtype").text(), e.get("shape").items, data))
	return may, f.put(rank, s)
}
