// Package rng is named random streams, whose whole state is 16 bytes.
//
// The source is golang.org/x/exp/rand's PCG; no other package imports it. A stream's
// state is a hash of its seed, name and indices, so streams do not depend on one
// another nor on the order in which they are made.
package rng

import (
	"encoding/binary"
	"fmt"
	"math"

	"golang.org/x/exp/rand"

	"firstbit/libm"
)

// Stream is a named source of random numbers.
type Stream struct {
	name string
	pcg  rand.PCGSource
}

// New makes the stream of a name. With indices (step, layer, sample, …) it is the
// indexed mode: a stream on the spot that no other draw can shift.
//
//	high = Mix(seed, HashString(name), index…)
//	low  = Mix(seed, HashString(name), index…, 1)
//
// The halves are joined: the state is one of 2⁶⁴, not 2¹²⁸, so that among n streams the
// chance that two are the same is about n²/2⁶⁵.
func New(seed uint64, name string, index ...uint64) *Stream {
	s := &Stream{name: name}
	s.Seek(seed, index...)
	return s
}

// Seek takes the stream to where New(seed, its name, index…) begins.
func (s *Stream) Seek(seed uint64, index ...uint64) {
	hi := mixOn(Mix(seed, HashString(s.name)), index...)
	// Seed copies one word into both halves; the state is set whole instead.
	s.set(hi, mixOn(hi, 1))
}

func (s *Stream) set(hi, lo uint64) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	if err := s.pcg.UnmarshalBinary(b[:]); err != nil {
		panic("rng: the PCG source refuses a state of 16 bytes")
	}
}

// Name is the name the stream was made with.
func (s *Stream) Name() string { return s.name }

// Uint64 draws 64 bits.
func (s *Stream) Uint64() uint64 { return s.pcg.Uint64() }

// Float64 draws from [0, 1), 53 bits.
func (s *Stream) Float64() float64 { return float64(float64(s.pcg.Uint64()>>11) * 0x1p-53) }

// Intn draws from 0 to n−1, unbiased, by rejection.
func (s *Stream) Intn(n int) int {
	if n <= 0 {
		panic("rng: Intn of nothing")
	}
	limit := math.MaxUint64 - math.MaxUint64%uint64(n)
	for {
		if v := s.pcg.Uint64(); v < limit {
			return int(v % uint64(n))
		}
	}
}

// Norm draws from N(0, 1) by the polar method. Of the pair it makes one is used, so
// that the stream's state is its source's.
//
// Source: Marsaglia & Bray 1964, "A convenient method for generating normal variables".
func (s *Stream) Norm() float64 {
	for {
		u, v := float64(2*s.Float64())-1, float64(2*s.Float64())-1
		r := float64(u*u) + float64(v*v)
		if r > 0 && r < 1 {
			return float64(u * math.Sqrt(float64(-2*libm.Log(r))/r))
		}
	}
}

// Perm draws a permutation of 0 to n−1 (Fisher–Yates).
func (s *Stream) Perm(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := s.Intn(i + 1)
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// MarshalBinary is the stream's whole state, 16 bytes: the high half, then the low, big-endian.
func (s *Stream) MarshalBinary() ([]byte, error) { return s.pcg.MarshalBinary() }

// UnmarshalBinary sets the state MarshalBinary gave; the name stays.
//
// Errors:  a state that is not 16 bytes, which leaves the stream as it was.
func (s *Stream) UnmarshalBinary(b []byte) error {
	if len(b) != 16 {
		return fmt.Errorf("state of stream %q: %d bytes, must be 16", s.name, len(b))
	}
	return s.pcg.UnmarshalBinary(b)
}

// Mix hashes words to one: a chain of splitmix64 finalisers.
//
// Source: Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators".
func Mix(words ...uint64) uint64 { return mixOn(0, words...) }

// mixOn goes on with a hash.
func mixOn(h uint64, words ...uint64) uint64 {
	for _, w := range words {
		h += w + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// HashString is FNV-1a, 64 bits.
func HashString(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
