package checkpoint

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"firstbit/model"
)

// A Limit is how large a file of tensors may be. It follows from what the file must hold, so it is known before the file is read.
type Limit struct {
	Bytes  int64 // of the file
	Header int64 // of the JSON that says what it holds, and takes up to thirty times as much memory when it is parsed
}

const (
	headerBase = 1 << 16 // bytes of metadata
	headerEach = 1 << 9  // bytes of a tensor's name, type, extents and offsets
	widest     = 8       // bytes of an element
	textMost   = 1 << 20 // bytes of a config.json
)

// limitOf bounds a file of so many tensors and elements.
func limitOf(tensors, elements int64) Limit {
	header := headerBase + headerEach*tensors
	return Limit{8 + header + widest*elements, header}
}

// weightsLimit bounds the weights of a nemotron_h folder: four times what the model has, as a folder may also have multi-token
// prediction that the model leaves aside.
func weightsLimit(m *model.Model) Limit {
	tensors, elements := int64(1), int64(0)
	for _, s := range slots(m) {
		tensors++
		elements += int64(s.tensor.Len())
		if shape := s.tensor.Shape(); len(shape) > 2 { // experts, which may come one by one
			tensors += int64(shape[0])
		}
	}
	if m.Tied {
		elements += int64(m.Embed.W.Master.Len())
	}
	return limitOf(4*tensors, 4*elements)
}

// oneLine refuses words that would break a line in which they are printed.
func oneLine(words ...string) error {
	for _, w := range words {
		if strings.ContainsFunc(w, unicode.IsControl) {
			return fmt.Errorf("%q: must hold no control characters", w)
		}
	}
	return nil
}

const (
	manifestBase = 1 << 20 // bytes of what a manifest says of a run
	manifestEach = 4 << 20 // bytes of what it says of a rank
	manifestMost = 1 << 30
)

// elementsMost bounds a rank's tensors together: weights, masters and moments of the largest model and as much again.
const elementsMost = 1 << 32

// limit bounds a rank's file by the tensors that the manifest lists.
func (f RankFile) limit() (Limit, error) {
	elements := int64(0)
	for _, t := range f.Tensors {
		n := int64(1)
		for _, extent := range t.Shape {
			if extent < 0 || extent > math.MaxInt32 || int64(extent)*n > elementsMost {
				return Limit{}, fmt.Errorf("tensor %q: shape %v: must have at most %d elements", t.Name, t.Shape, int64(elementsMost))
			}
			n *= int64(extent)
		}
		if elements += n; elements > elementsMost {
			return Limit{}, fmt.Errorf("tensor %q: with those before it %d elements: must be at most %d", t.Name, elements, int64(elementsMost))
		}
	}
	return limitOf(int64(len(f.Tensors)), elements), nil
}

// fits reports that the files of all ranks, which are read whole, are larger than the memory that is left; nil: they are not.
func (m *Manifest) fits(available int64) error {
	all := int64(0)
	for _, f := range m.Files {
		all += int64(f.Bytes)
	}
	if all > available {
		return fmt.Errorf("files: of %d bytes together: %d bytes of memory are available", all, available)
	}
	return nil
}

func (f RankFile) check() error {
	for _, t := range f.Tensors {
		if err := oneLine(t.Name, t.Dtype, t.Place.String()); err != nil {
			return fmt.Errorf("tensor %w", err)
		}
	}
	most, err := f.limit()
	if err == nil && (f.Bytes < 0 || int64(f.Bytes) > most.Bytes) {
		err = fmt.Errorf("%d bytes: must be at most %d, by its tensors", f.Bytes, most.Bytes)
	}
	return err
}
