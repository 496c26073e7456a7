package data

import (
	"fmt"

	"firstbit/rng"
)

// Sampler deals windows of T+1 tokens, each once an epoch, in an order shuffled per
// epoch. Consumed, the samples dealt so far, is its whole state: sample i is window
// perm[i mod windows] of epoch i div windows.
//
// Source: FACTS §4.
type Sampler struct {
	Consumed int64

	corpus *Corpus
	t      int
	seed   uint64
	epoch  int64
	perm   []int
}

// NewSampler deals samples of t tokens and their targets.
func NewSampler(c *Corpus, t int, seed uint64) (*Sampler, error) {
	if len(c.Tokens) < t+1 {
		return nil, fmt.Errorf("data %s: %d tokens: must be at least seq+1 (%d)", c.Name, len(c.Tokens), t+1)
	}
	return &Sampler{corpus: c, t: t, seed: seed, epoch: -1}, nil
}

// windows do not overlap but for the last target, which is the next window's first token.
func (s *Sampler) windows() int { return (len(s.corpus.Tokens) - 1) / s.t }

// Next fills whole samples of T tokens; targets are shifted by one.
func (s *Sampler) Next(tokens, targets []int32) {
	if len(tokens)%s.t != 0 || len(tokens) != len(targets) {
		panic("data: a batch is whole samples")
	}
	for at := 0; at < len(tokens); at += s.t {
		start := s.window() * s.t
		for i, v := range s.corpus.Tokens[start : start+s.t+1] {
			if i < s.t {
				tokens[at+i] = int32(v)
			}
			if i > 0 {
				targets[at+i-1] = int32(v)
			}
		}
		s.Consumed++
	}
}

func (s *Sampler) window() int {
	n := int64(s.windows())
	if epoch := s.Consumed / n; epoch != s.epoch {
		s.epoch = epoch
		s.perm = rng.New(s.seed, "data", uint64(epoch)).Perm(int(n))
	}
	return s.perm[s.Consumed%n]
}
