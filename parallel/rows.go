package parallel

import (
	"firstbit/device"
	"firstbit/lowp"
)

// The collectives of layers work on rows. outer is the number of blocks that the rows of the whole are cut into before the
// members are: 1 where members have contiguous rows, B where each has a part of every sequence. In a group of one all of them
// return what they are given, without a Call.

// Gather is every member's rows, one after another in each block.
//
// Shapes: x (outer·r,D) → y (outer·n·r,D), n the members.
func (m Member) Gather(dev *device.Device, label string, x *device.Tensor, outer int) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	panic("parallel: Gather")
}

// Scatter is the sum of every member's x, of which each keeps its own rows, in format f. Partial sums come at master
// width; each hop rounds as the plan says, f unless told otherwise.
//
// Shapes: x (outer·n·r,D) → y (outer·r,D).
// Reduces: the members.
func (m Member) Scatter(dev *device.Device, label string, x *device.Tensor, outer int, f lowp.Format) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	panic("parallel: Scatter")
}

// Slice is a member's own rows of what every member has; no one meets.
//
// Shapes: x (outer·n·r,D) → y (outer·r,D).
func (m Member) Slice(dev *device.Device, label string, x *device.Tensor, outer int) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	panic("parallel: Slice")
}

// Largest is the largest of every member's x, element by element.
//
// Shapes: x (…) → y (…).
func (m Member) Largest(dev *device.Device, label string, x *device.Tensor) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	panic("parallel: Largest")
}

// AllToAll sends rows to every member, and returns the rows that every member sent, one member's after another's. send and
// receive are the rows for and from each.
//
// Shapes: x (Σ send,D) → y (Σ receive,D).
func (m Member) AllToAll(dev *device.Device, label string, x *device.Tensor, send, receive []int) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	panic("parallel: AllToAll")
}

// Send gives x to a member, who takes it with Recv under the same scope and label, in the same step, microbatch and phase. It does not wait.
func (m Member) Send(dev *device.Device, label string, to int, x *device.Tensor) {
	panic("parallel: Send")
}

// Recv waits for what a member sends.
func (m Member) Recv(dev *device.Device, label string, from int, f lowp.Format, shape ...int) *device.Tensor {
	panic("parallel: Recv")
}
