package checkpoint

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"firstbit/device"
	"firstbit/lowp"
)

// Format is that of ours in which the tensor is held.
func (t Tensor) Format() (lowp.Format, error) {
	for _, f := range formats {
		if f.file == t.format {
			return f.ours, nil
		}
	}
	return 0, fmt.Errorf("tensor %q: type %s: must be F64, F32, BF16, F16 or I32", t.Name, t.format)
}

// Fits reports why the tensor cannot become dst; nil: it can.
func (t Tensor) Fits(dst *device.Tensor) error {
	f, err := t.Format()
	switch {
	case err != nil:
		return err
	case f != dst.Format:
		return fmt.Errorf("tensor %q: is %s: must be %s", t.Name, f, dst.Format)
	case !slices.Equal(t.Shape, dst.Shape()):
		return fmt.Errorf("tensor %q: shape %v: must be %v", t.Name, t.Shape, dst.Shape())
	}
	return nil
}

// CopyTo gives dst, which it fits, the tensor's bits.
func (t Tensor) CopyTo(dst *device.Tensor) {
	switch {
	case dst.Format == lowp.FP32:
		x, b := dst.F32(), t.data
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i : 4*i+4]))
		}
	case dst.Format == lowp.BF16:
		x, b := dst.F32(), t.data
		for i := range x {
			x[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:2*i+2])) << 16)
		}
	case dst.F32() != nil:
		copy(dst.F32(), dst.Format.FromBytes(t.data))
	case dst.F64() != nil:
		for i := range dst.F64() {
			dst.F64()[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.data[8*i:]))
		}
	default:
		for i := range dst.I32() {
			dst.I32()[i] = int32(binary.LittleEndian.Uint32(t.data[4*i:]))
		}
	}
}

// entry describes a tensor as manifests do.
func (t Tensor) entry() (Entry, error) {
	f, err := t.Format()
	if err != nil {
		return Entry{}, err
	}
	d := device.DigestOf(f, t.Shape, t.data)
	return Entry{t.Name, f.String(), t.Shape, hex.EncodeToString(d[:]), t.place}, nil
}

// entries describes a file's tensors, in order of their names.
func (f *File) entries() ([]Entry, error) {
	all := make([]Entry, len(f.Tensors))
	for i, t := range f.Tensors {
		var err error
		if all[i], err = t.entry(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Differ names the first tensor in which another checkpoint's state is not this one's; empty: none.
func (m *Manifest) Differ(other *Manifest) string {
	if len(m.Files) != len(other.Files) {
		return fmt.Sprintf("%d ranks and %d", len(m.Files), len(other.Files))
	}
	for rank, f := range m.Files {
		if why := differ(f.Tensors, other.Files[rank].Tensors); why != "" {
			return fmt.Sprintf("rank %d: %s", rank, why)
		}
	}
	return ""
}

// differ names the first tensor in which a file is not what its manifest says; empty: none.
func differ(want, got []Entry) string {
	for i, w := range want {
		switch {
		case i >= len(got) || got[i].Name > w.Name:
			return fmt.Sprintf("tensor %q: is missing", w.Name)
		case got[i].Name < w.Name:
			return fmt.Sprintf("tensor %q: the manifest has none of that name", got[i].Name)
		case got[i].Dtype != w.Dtype || !slices.Equal(got[i].Shape, w.Shape):
			return fmt.Sprintf("tensor %q: is %s %v: must be %s %v", w.Name, got[i].Dtype, got[i].Shape, w.Dtype, w.Shape)
		case got[i].Digest != w.Digest:
			return fmt.Sprintf("tensor %q: has digest %s: must be %s", w.Name, got[i].Digest, w.Digest)
		}
	}
	if len(got) > len(want) {
		return fmt.Sprintf("tensor %q: the manifest has none of that name", got[len(want)].Name)
	}
	return ""
}
