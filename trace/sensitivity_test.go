package trace

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/rng"
)

// change is a difference between two tensors that a digest must show.
type change struct {
	name string
	make func(s *rng.Stream, t *device.Tensor) []*device.Tensor // what differs from t, or from t and scales
}

func copyOf(t *device.Tensor, shape ...int) *device.Tensor {
	if len(shape) == 0 {
		shape = t.Shape()
	}
	c := device.NewTensor(t.Format, shape...)
	c.CopyAt(0, t)
	return c
}

// different are two elements with other bits.
func different(s *rng.Stream, t *device.Tensor) (i, j int) {
	for t.Bits(i) == t.Bits(j) {
		i, j = s.Intn(t.Len()), s.Intn(t.Len())
	}
	return i, j
}

func flipBit(t *device.Tensor, i, bit int) {
	t.F32()[i] = t.Format.Decode(t.Format.Encode(t.F32()[i]) ^ 1<<bit)
}

var changes = []change{
	{"any bit", func(s *rng.Stream, t *device.Tensor) []*device.Tensor {
		c := copyOf(t)
		for i := s.Intn(c.Len()); ; c.F32()[i] = t.F32()[i] {
			if flipBit(c, i, s.Intn(c.Format.Bits())); c.F32()[i] == c.F32()[i] { // no NaN
				return []*device.Tensor{c}
			}
		}
	}},
	{"a sign", func(s *rng.Stream, t *device.Tensor) []*device.Tensor {
		c := copyOf(t)
		i := s.Intn(c.Len())
		c.F32()[i] = -c.F32()[i]
		return []*device.Tensor{c}
	}},
	{"two elements swapped", func(s *rng.Stream, t *device.Tensor) []*device.Tensor {
		c := copyOf(t)
		i, j := different(s, c)
		c.F32()[i], c.F32()[j] = c.F32()[j], c.F32()[i]
		return []*device.Tensor{c}
	}},
	{"two rows swapped", func(s *rng.Stream, t *device.Tensor) []*device.Tensor {
		c, n := copyOf(t), t.Cols()
		i := s.Intn(c.Rows() - 1)
		j := i + 1 + s.Intn(c.Rows()-1-i)
		for k := range n {
			c.F32()[i*n+k], c.F32()[j*n+k] = t.F32()[j*n+k], t.F32()[i*n+k]
		}
		return []*device.Tensor{c}
	}},
	{"all negated", func(_ *rng.Stream, t *device.Tensor) []*device.Tensor {
		c := copyOf(t)
		for i := range c.F32() {
			c.F32()[i] = -c.F32()[i]
		}
		return []*device.Tensor{c}
	}},
	{"−0 for 0", func(s *rng.Stream, t *device.Tensor) []*device.Tensor {
		i := s.Intn(t.Len())
		t.F32()[i] = 0
		c := copyOf(t)
		c.F32()[i] = float32(math.Copysign(0, -1))
		return []*device.Tensor{c}
	}},
	{"one change in two elements", func(s *rng.Stream, t *device.Tensor) []*device.Tensor {
		c := copyOf(t)
		i, j := different(s, c)
		bit := s.Intn(7) // below every format's exponent
		flipBit(c, i, bit)
		flipBit(c, j, bit)
		return []*device.Tensor{c}
	}},
	{"transposed", func(_ *rng.Stream, t *device.Tensor) []*device.Tensor {
		c := device.NewTensor(t.Format, t.Cols(), t.Rows())
		for i := range t.Rows() {
			for j := range t.Cols() {
				c.F32()[j*t.Rows()+i] = t.F32()[i*t.Cols()+j]
			}
		}
		return []*device.Tensor{c}
	}},
	{"reshaped", func(_ *rng.Stream, t *device.Tensor) []*device.Tensor {
		return []*device.Tensor{copyOf(t, t.Cols(), t.Rows())}
	}},
	{"the same values in another dtype", func(_ *rng.Stream, t *device.Tensor) []*device.Tensor {
		twin := lowp.FP32
		if t.Format == lowp.FP32 {
			twin = lowp.BF16
			lowp.BF16.RoundSlice(t.F32())
		}
		c := device.NewTensor(twin, t.Shape()...)
		copy(c.F32(), t.F32())
		return []*device.Tensor{c}
	}},
	{"scales alone", func(s *rng.Stream, t *device.Tensor) []*device.Tensor {
		c := device.NewTensor(lowp.E8M0, t.Rows())
		for i := range c.F32() {
			c.F32()[i] = float32(math.Ldexp(1, s.Intn(20)-10))
		}
		d := copyOf(c)
		d.F32()[s.Intn(d.Len())] *= 2
		return []*device.Tensor{copyOf(t), c, copyOf(t), d}
	}},
}

// seen tells which fingerprints of one list of tensors are not those of the other.
func seen(a, b []*device.Tensor) (digest, xor, l1 bool) {
	norm := func(t *device.Tensor) (sum float64) {
		for i := range t.Len() {
			sum += math.Abs(t.Value(i))
		}
		return sum
	}
	for i := range a {
		digest = digest || a[i].Digest(nil) != b[i].Digest(nil)
		xor = xor || a[i].XOR() != b[i].XOR()
		x, y := norm(a[i]), norm(b[i])
		l1 = l1 || math.Abs(x-y) > 1e-8*max(x, y) // as comparers of norms do
	}
	return digest, xor, l1
}

// Every kind of change shows in the digest, whatever it is; of what a XOR of bits or a norm shows, docs/traces.md has the table.
func TestDigestsShowEveryChange(t *testing.T) {
	const trials = 200
	page, err := os.ReadFile("../docs/traces.md")
	require.NoError(t, err)
	s := rng.New(7, "sensitivity")
	for _, c := range changes {
		digests, xors, norms := 0, 0, 0
		for trial := range trials {
			f := []lowp.Format{lowp.FP32, lowp.BF16}[trial%2]
			x := device.NewTensor(f, 4+s.Intn(5), 10+s.Intn(7))
			for i := range x.F32() {
				x.F32()[i] = f.Round(float32(s.Norm()))
			}
			pair := c.make(s, x)
			a, b := []*device.Tensor{x}, pair
			if len(pair) > 1 {
				a, b = pair[:2], pair[2:]
			}
			digest, xor, l1 := seen(a, b)
			for n, is := range map[*int]bool{&digests: digest, &xors: xor, &norms: l1} { // counts: order reaches nothing
				if is {
					*n++
				}
			}
		}
		require.Equal(t, trials, digests, c.name)
		row := fmt.Sprintf("| %s | %d | %d | %d |", c.name, digests, xors, norms)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/traces.md lacks: %s", row)
		}
	}
}
