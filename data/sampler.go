package data

import "firstbit/rng"

// Sampler deals windows of T+1 tokens, each once an epoch, in an order shuffled per epoch.
//
// A window starts every T tokens: as targets are inputs shifted by one, its last target is the
// first input of the next, and otherwise windows do not overlap. A rest too short for a
// window is not dealt.
//
// Consumed, the number of samples dealt so far, is the whole state. With W windows,
// sample Consumed mod W of epoch e = Consumed div W is window perm_e[Consumed mod W], and perm_e is
// drawn from the stream (seed, "data", e).
//
// Source: Megatron, data/helpers.cpp, build_sample_idx: (tokens − 1) / length samples, which
// share that token too.
type Sampler struct {
	Consumed int64

	documents Documents

	corpus  *Corpus
	windows int // of an epoch
	t       int
	seed    uint64
	epoch   int64 // of perm; −1 before the first
	perm    []int
}

// NewSampler deals samples of t tokens and their targets.
//
// Errors: a corpus of fewer than t+1 tokens, or of one document where these count.
func NewSampler(c *Corpus, t int, seed uint64, d Documents) (*Sampler, error) {
	if t < 1 {
		panic("data: a sample has at least one token")
	}
	if len(c.Tokens) <= t {
		return nil, fail(c.Name, "%d tokens: must be at least seq+1 (%d)", len(c.Tokens), int64(t)+1)
	}
	return &Sampler{corpus: c, windows: (len(c.Tokens) - 1) / t, t: t, seed: seed, epoch: -1, documents: d}, d.check(c)
}

// Windows is the number of samples of an epoch.
func (s *Sampler) Windows() int { return s.windows }

// Keep leaves an epoch its first n windows.
//
// Errors: there are fewer.
func (s *Sampler) Keep(n int) error {
	if n > s.windows {
		return fail(s.corpus.Name, "%d samples of %d tokens: must be at least samples (%d)", s.windows, s.t, n)
	}
	s.windows = n
	return nil
}

// Next deals the next samples and advances Consumed. It allocates at an epoch's start only.
//
//	tokens[b·T+t] = corpus[T·window_b + t],  targets[b·T+t] = corpus[T·window_b + t + 1], or −1: it counts for nothing
//	starts[b·T+t] = the first step of the sample that is of step t's document
//
// Shapes:  tokens, targets, starts (B,T) or nil, B by their length.
func (s *Sampler) Next(tokens, targets, starts []int32) {
	if len(tokens)%s.t != 0 || len(tokens) != len(targets) {
		panic("data: a batch is whole samples, with a target for each token")
	}
	for at := 0; at < len(tokens); at += s.t {
		from := s.window() * s.t
		in, out := s.corpus.Tokens[from:from+s.t], s.corpus.Tokens[from+1:from+s.t+1]
		for i := range in {
			tokens[at+i], targets[at+i] = int32(in[i]), int32(out[i])
		}
		if s.documents.Any() {
			var own []int32
			if starts != nil {
				own = starts[at:][:s.t]
			}
			s.documents.mark(s.corpus, from, targets[at:][:s.t], own)
		}
		s.Consumed++
	}
}

// window is that of the sample which is next.
func (s *Sampler) window() int {
	if s.Consumed < 0 {
		panic("data: the samples consumed are below none")
	}
	n := int64(s.Windows())
	if epoch := s.Consumed / n; epoch != s.epoch {
		s.epoch, s.perm = epoch, rng.New(s.seed, "data", uint64(epoch)).Perm(int(n))
	}
	return s.perm[s.Consumed%n]
}
