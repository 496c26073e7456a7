// Package checkpoint holds weights as safetensors files, under the model's own names or
// those of Hugging Face's nemotron_h, and reads and writes that family's config.json.
package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/nlpodyssey/safetensors"

	"firstbit/device"
	"firstbit/files"
	"firstbit/lowp"
	"firstbit/state"
)

// A Tensor is a named array as a file holds it: row-major, little-endian.
type Tensor struct {
	Name  string
	Shape []int

	format safetensors.DType
	data   []byte
	place  *state.Place // in the whole; nil: not known
}

// A File is the tensors of a safetensors file, in order of their names.
type File struct {
	Tensors []Tensor
}

// formats pairs what a file may hold with the formats of ours. Others are
// never written.
var formats = []struct {
	file safetensors.DType
	ours lowp.Format
}{{safetensors.F64, lowp.FP64}, {safetensors.F32, lowp.FP32}, {safetensors.BF16, lowp.BF16}, {safetensors.F16, lowp.FP16}, {safetensors.I32, lowp.INT32}}

// ReadFile reads a whole file.
func ReadFile(path string, most Limit) (*File, error) {
	b, err := files.Read(path, most.Bytes)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, files.Reason(err))
	}
	f, err := Decode(b, most.Header)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	return f, nil
}

// otherLength is what the library says of a file that is cut, or has bytes behind its last tensor.
const otherLength = "metadata incomplete buffer"

// Decode parses a file's bytes, of which the header is at most so many, and keeps them.
func Decode(b []byte, header int64) (*File, error) {
	if len(b) >= 8 {
		if n := binary.LittleEndian.Uint64(b); n > uint64(header) {
			return nil, fmt.Errorf("is no safetensors file: a header of %d bytes: must be at most %d", n, header)
		}
	}
	parsed, err := safetensors.Deserialize(b)
	if err != nil && err.Error() == otherLength {
		return nil, errors.New("is no safetensors file: the tensors that its header lists end before the file does, or after")
	}
	if err != nil {
		return nil, fmt.Errorf("is no safetensors file: %w", err)
	}
	f := &File{}
	for _, named := range parsed.Tensors() {
		v := named.TensorView
		t := Tensor{Name: named.Name, format: v.DType(), data: v.Data(), Shape: make([]int, len(v.Shape()))}
		for i, n := range v.Shape() {
			if n > math.MaxInt32 {
				return nil, fmt.Errorf("tensor %q: extent %d: must be at most %d", t.Name, n, math.MaxInt32)
			}
			t.Shape[i] = int(n)
		}
		f.Tensors = append(f.Tensors, t)
	}
	slices.SortFunc(f.Tensors, func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	return f, nil
}

// WriteFile writes tensors whose names are distinct. The same tensors make the same bytes.
func WriteFile(path string, tensors []Tensor) error {
	b, err := Encode(tensors)
	if err == nil {
		err = os.WriteFile(path, b, 0o666)
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", path, files.Reason(err))
	}
	return nil
}

// Encode is the bytes of a file of tensors whose names are distinct.
func Encode(tensors []Tensor) ([]byte, error) {
	var b bytes.Buffer
	err := encodeTo(&b, tensors)
	return b.Bytes(), err
}

// encodeTo writes what Encode returns.
func encodeTo(w io.Writer, tensors []Tensor) error {
	views := make(map[string]view, len(tensors))
	for _, t := range tensors {
		if _, twice := views[t.Name]; twice {
			return fmt.Errorf("tensor %q: is there twice", t.Name)
		}
		v := view{t, make([]uint64, len(t.Shape))}
		for i, n := range t.Shape {
			v.shape[i] = uint64(n)
		}
		views[t.Name] = v
	}
	// Transformers asks for a metadata entry that says who wrote the layout.
	return safetensors.SerializeToWriter(views, map[string]string{"format": "pt"}, w)
}

// view is a Tensor as the library asks for it. Its own refuses scalars.
type view struct {
	t     Tensor
	shape []uint64
}

func (v view) DType() safetensors.DType { return v.t.format }
func (v view) Shape() []uint64          { return v.shape }
func (v view) Data() []byte             { return v.t.data }
func (v view) DataLen() uint64          { return uint64(len(v.t.data)) }

// Of is a copy of a device's tensor under a name.
func Of(name string, t *device.Tensor) Tensor {
	x := View(name, t)
	x.data = slices.Clone(x.data)
	return x
}

// View is a device's tensor under a name, with whose storage it may share its own: it is to be written before that changes.
func View(name string, t *device.Tensor) Tensor {
	for _, f := range formats {
		if f.ours == t.Format {
			return Tensor{Name: name, Shape: slices.Clone(t.Shape()), format: f.file, data: t.Bytes(nil)}
		}
	}
	panic("checkpoint: a format that safetensors lacks")
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := slices.BinarySearchFunc(f.Tensors, name, func(t Tensor, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// FileOf is a file of tensors whose names are distinct.
func FileOf(tensors []Tensor) *File {
	f := &File{Tensors: slices.Clone(tensors)}
	slices.SortFunc(f.Tensors, func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	return f
}

// At is the tensor with a place.
func (t Tensor) At(p state.Place) Tensor {
	t.place = &p
	return t
}

// Same tells whether two tensors have the same type, shape and bits.
func (t Tensor) Same(other Tensor) bool {
	return t.format == other.format && slices.Equal(t.Shape, other.Shape) && bytes.Equal(t.data, other.data)
}

// Len is the number of elements.
func (t Tensor) Len() int { return elements(t.Shape) }

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Values are the elements, exactly but for integers beyond 2⁵³.
func (t Tensor) Values() ([]float64, error) {
	x := make([]float64, t.Len())
	switch t.format {
	case safetensors.F64:
		for i := range x {
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.data[8*i:]))
		}
	case safetensors.I64:
		for i := range x {
			x[i] = float64(int64(binary.LittleEndian.Uint64(t.data[8*i:])))
		}
	case safetensors.I32:
		for i := range x {
			x[i] = float64(int32(binary.LittleEndian.Uint32(t.data[4*i:])))
		}
	case safetensors.F32:
		widen(x, lowp.FP32.FromBytes(t.data))
	case safetensors.BF16:
		widen(x, lowp.BF16.FromBytes(t.data))
	case safetensors.F16:
		widen(x, lowp.FP16.FromBytes(t.data))
	default:
		return nil, fmt.Errorf("tensor %q: type %s: must be F64, F32, BF16, F16, I64 or I32", t.Name, t.format)
	}
	return x, nil
}

func widen(dst []float64, x []float32) {
	for i, v := range x {
		dst[i] = float64(v)
	}
}
