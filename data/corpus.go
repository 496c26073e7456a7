// Package data is corpora and the sampler that deals them.
package data

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"firstbit/files"
	"firstbit/libm"
)

// Corpus is a stream of tokens, its documents and its vocabulary size.
type Corpus struct {
	Name   string
	Tokens []uint16
	// Documents are where documents begin, ascending from 0; the last token of each ends it. A document is a paragraph of the generated
	// corpus, a file of a folder, or what a Megatron index says; a text file and tokens without an index are one.
	Documents []int32
	Vocab     int // every token is below it: 128 for the generated corpus, 256 for text, else the highest token plus one
}

// Embedded is the generated corpus: the same 256 KiB of ASCII for everybody. All callers
// share it, so its tokens are only read.
func Embedded() *Corpus { return embedded() }

var embedded = sync.OnceValue(func() *Corpus {
	c := &Corpus{Name: "embedded", Tokens: bytesOf(generate(1 << 18)), Documents: []int32{0}, Vocab: 128}
	for i, token := range c.Tokens[:len(c.Tokens)-1] {
		if token == '\n' {
			c.Documents = append(c.Documents, int32(i+1))
		}
	}
	return c
})

// Open reads a corpus for a model of the given vocabulary. An empty path is Embedded. A file
// whose name ends in .bin holds tokens, see openTokens; any other file, and the files of a
// folder, are text, a token a byte, see isText and joinText.
//
// Errors: one line that names the file and what is allowed.
func Open(path string, vocab int) (*Corpus, error) {
	c, err := open(path)
	if err != nil {
		return nil, err
	}
	for i, t := range c.Tokens {
		if int(t) >= vocab {
			return nil, fail(path, "token %d at %d: must be below model.vocab (%d)", t, i, vocab)
		}
	}
	return c, nil
}

func open(path string) (*Corpus, error) {
	if path == "" {
		return Embedded(), nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fail(path, "%w: must be a text file, a folder of text files or a token file (.bin)", files.Reason(err))
	case info.IsDir():
		return openFolder(path)
	case strings.HasSuffix(path, ".bin"):
		return openTokens(path)
	}
	return openText(path)
}

// bytesMax bounds what is read into memory, which tokens of two bytes then need twice. It keeps the place of every token within 32 bits.
const bytesMax = 1<<31 - 1

// readFile reads a regular file of bounded size.
func readFile(path string) ([]byte, error) {
	b, err := files.Read(path, bytesMax)
	if err != nil {
		return nil, fail(path, "%w", files.Reason(err))
	}
	return b, nil
}

// fail is an error about a file. A name that would break the line is quoted.
func fail(path, format string, args ...any) error {
	if strings.ContainsFunc(path, unicode.IsControl) {
		path = strconv.Quote(path)
	}
	return fmt.Errorf("data %s: "+format, append([]any{path}, args...)...)
}

// Unigram is the entropy of the corpus' own token frequencies: the loss of the best model
// that looks at nothing.
//
//	h = −Σ_v p_v·log p_v
//
// Reduces: the vocabulary, in token order.
// Units:   nats.
func (c *Corpus) Unigram() float64 {
	counts := make([]int, 1<<16)
	for _, t := range c.Tokens {
		counts[t]++
	}
	h, n := 0.0, float64(len(c.Tokens))
	for _, k := range counts {
		if k > 0 {
			p := float64(k) / n
			h -= float64(p * libm.Log(p))
		}
	}
	return h
}
