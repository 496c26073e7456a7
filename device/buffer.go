package device

import "firstbit/lowp"

// Buffer is one memory for tensors that travel as one, such as the gradients of a bucket.
type Buffer struct {
	Whole   *Tensor
	Tensors []Arg // in the order in which they lie

	// Micros is how many microbatches each rank that adds has, in its turn. Their sum is then no subtree of that of all, and each brings so many
	// Subtrees, equally long and one after another, of which the first are those of reduce.Subtrees. 0: it brings one sum.
	Micros, Subtrees int

	at []int // where each begins
}

// Len is the number of elements of a sum.
func (b *Buffer) Len() int { return b.Whole.Len() / max(b.Subtrees, 1) }

// NewBuffer makes a memory of so many zeros.
func NewBuffer(f lowp.Format, n int) *Buffer { return &Buffer{Whole: NewTensor(f, n)} }

// BufferOf is the memory of a tensor, which is its only one.
func BufferOf(name string, t *Tensor) *Buffer {
	return &Buffer{Whole: t.View(0, t.Len()), Tensors: []Arg{{name, t}}, at: []int{0}}
}

// Hold adds a tensor that begins at element at. Where t itself lies is left as it is: Collect and Spread copy.
func (b *Buffer) Hold(at int, name string, t *Tensor) {
	b.Tensors, b.at = append(b.Tensors, Arg{name, t}), append(b.at, at)
}

// Lay adds a tensor and moves t there with what it holds, so that Collect and Spread have nothing to copy.
func (b *Buffer) Lay(at int, name string, t *Tensor) {
	b.Hold(at, name, t)
	b.Whole.CopyAt(at, t)
	t.Alias(b.Whole.View(at, at+t.Len()))
}

// Clear forgets the tensors. The memory keeps what it holds.
func (b *Buffer) Clear() { b.Tensors, b.at = b.Tensors[:0], b.at[:0] }

// Collect brings the tensors' values to the memory, from those that lie elsewhere.
func (b *Buffer) Collect() {
	for i, p := range b.Tensors {
		if !b.has(i) {
			b.Whole.CopyAt(b.at[i], p.Tensor)
		}
	}
}

// Spread brings the memory's values to the tensors that lie elsewhere.
func (b *Buffer) Spread() {
	for i, p := range b.Tensors {
		if !b.has(i) {
			p.CopyFrom(b.Whole.View(b.at[i], b.at[i]+p.Len()))
		}
	}
}

// has tells whether tensor i lies in the memory; one that is held lies elsewhere.
func (b *Buffer) has(i int) bool {
	return b.Tensors[i].LiesIn(b.Whole, b.at[i])
}
