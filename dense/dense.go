// Package dense shows tensors to gorgonia.org/tensor, for Go programs that slice, print or summarise them. Nothing that trains
// imports it: the order in which that library adds is hidden and differs between processors.
package dense

import (
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"firstbit/device"
)

// View is t as a Dense on the same memory: what is written to one is written to the other, until a Call gives t another
// shape. Slicing, iterating and printing work; arithmetic is refused with an error (MatMul panics with it), since it would bypass the device.
//
// Errors: a tensor without elements, which the library does not have.
func View(t *device.Tensor) (*tensor.Dense, error) {
	return of(t, backing(t), tensor.WithEngine(storage{}))
}

// Copy is t's values as a Dense of its own, with the library's arithmetic. Statistics made with it are for people: their bits
// may be others on another processor.
//
// Errors: as of View.
func Copy(t *device.Tensor) (*tensor.Dense, error) {
	switch b := backing(t).(type) {
	case []float32:
		return of(t, slices.Clone(b))
	case []float64:
		return of(t, slices.Clone(b))
	default:
		return of(t, slices.Clone(b.([]int32)))
	}
}

func of(t *device.Tensor, elements any, o ...tensor.ConsOpt) (*tensor.Dense, error) {
	if t.Len() == 0 {
		return nil, fmt.Errorf("dense: a tensor of shape %v has no elements", t.Shape())
	}
	return tensor.New(append(o, tensor.WithShape(slices.Clone(t.Shape())...), tensor.WithBacking(elements))...), nil
}

func backing(t *device.Tensor) any {
	switch {
	case t.F64() != nil:
		return t.F64()
	case t.I32() != nil:
		return t.I32()
	}
	return t.F32()
}

// storage is an engine with the memory methods only, so that the library's arithmetic fails on a View.
type storage struct{}

var errStorage = errors.New("dense: a view only shows; arithmetic goes through a Call, or on a Copy")

func (storage) AllocAccessible() bool                             { return true }
func (storage) Alloc(int64) (tensor.Memory, error)                { return nil, errStorage }
func (storage) Free(tensor.Memory, int64) error                   { return nil }
func (storage) Memset(tensor.Memory, any) error                   { return errStorage }
func (storage) Memclr(tensor.Memory)                              {}
func (storage) Memcpy(tensor.Memory, tensor.Memory) error         { return errStorage }
func (storage) Accessible(m tensor.Memory) (tensor.Memory, error) { return m, nil }
func (storage) WorksWith(tensor.DataOrder) bool                   { return true }
