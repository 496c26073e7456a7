package data

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
)

func textOf(c *Corpus) string {
	text := make([]byte, len(c.Tokens))
	for i, v := range c.Tokens {
		text[i] = byte(v)
	}
	return string(text)
}

func TestEmbeddedIsPinned(t *testing.T) {
	c := Embedded()
	require.Same(t, c, Embedded())
	require.Equal(t, 128, c.Vocab)
	require.Len(t, c.Tokens, 1<<18)
	for _, v := range c.Tokens {
		require.True(t, v == '\n' || v >= ' ' && v < 127, "%d prints nowhere", v)
	}
	require.Equal(t, uint64(0xd779f3fc8ebb08b5), xxh3.HashString(textOf(c)))
	require.InDelta(t, 3.6874, c.Unigram(), 1e-4)
}

// register is the shape of a line: which of the five wrote it.
func register(line string) string {
	switch {
	case strings.HasPrefix(line, "<"):
		return "copies"
	case strings.Contains(line, "+"):
		return "sums"
	case strings.Trim(line, "()[]{}") == "":
		return "brackets"
	case strings.HasSuffix(line, "|"):
		return "records"
	}
	return "sentences"
}

// Experts can divide the corpus among themselves only if its registers differ: a byte costs
// fewer nats once it is known who wrote it, and what a sum or a copy says is true.
func TestEmbeddedHasRegisters(t *testing.T) {
	c := Embedded()
	parts := map[string]*Corpus{}
	lines := strings.Split(textOf(c), "\n")
	for _, line := range lines[:len(lines)-1] { // the last is cut
		name := register(line)
		if parts[name] == nil {
			parts[name] = &Corpus{}
		}
		parts[name].Tokens = append(parts[name].Tokens, bytesOf([]byte(line))...)
		if name == "copies" {
			for word := range strings.FieldsSeq(line) {
				w := strings.Split(strings.Trim(word, "<>"), "|")
				require.Equal(t, []string{w[0], w[0], w[0]}, w)
			}
		}
	}
	require.Len(t, parts, 5)
	known, count := 0.0, map[string]int{}
	for _, name := range []string{"brackets", "copies", "records", "sentences", "sums"} {
		share := float64(len(parts[name].Tokens)) / float64(len(c.Tokens))
		require.Greater(t, share, 0.01, name)
		known += share * parts[name].Unigram()
		for _, line := range lines {
			if register(line) == name {
				count[name]++
			}
		}
		require.InDelta(t, 0.2, float64(count[name])/float64(len(lines)), 0.03, name)
	}
	require.Less(t, known, c.Unigram()-0.8)
}

// A model can learn it: the byte before predicts the next far better than nothing does.
func TestEmbeddedIsLearnable(t *testing.T) {
	c := Embedded()
	bigrams := func(tokens []uint16) *Corpus {
		pairs := &Corpus{}
		for i := 1; i < len(tokens); i++ {
			pairs.Tokens = append(pairs.Tokens, tokens[i-1]<<8|tokens[i])
		}
		return pairs
	}
	require.Less(t, bigrams(c.Tokens).Unigram()-c.Unigram(), 2.4, "nats of a byte given the one before")
	// Negative control: the same bytes, shuffled by the sampler's own stream, say nothing.
	shuffled := make([]uint16, len(c.Tokens))
	s, err := NewSampler(c, 1, 1, Documents{})
	require.NoError(t, err)
	for i := range shuffled[1:] {
		var in, out [1]int32
		s.Next(in[:], out[:], nil)
		shuffled[i] = uint16(in[0])
	}
	require.Greater(t, bigrams(shuffled).Unigram()-c.Unigram(), 3.6)
}

func TestUnigram(t *testing.T) {
	for _, tt := range []struct {
		tokens []uint16
		want   float64
	}{
		{nil, 0},
		{[]uint16{7, 7, 7}, 0},
		{[]uint16{0, 65535}, math.Ln2},
		{[]uint16{1, 2, 3, 4}, 2 * math.Ln2},
		{[]uint16{1, 1, 1, 2}, 2*math.Ln2 - 0.75*math.Log(3)}, // −¾·log ¾ − ¼·log ¼
	} {
		require.InDelta(t, tt.want, (&Corpus{Tokens: tt.tokens}).Unigram(), 1e-15, tt.tokens)
	}
}

func BenchmarkGenerate(b *testing.B) {
	for b.Loop() {
		generate(1 << 18)
	}
}
