// Package data is corpora and the sampler that deals them.
package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"firstbit/libm"
)

// Corpus is a stream of tokens.
type Corpus struct {
	Name   string
	Tokens []uint16
}

// Embedded is the generated corpus: the same 256 KiB of ASCII for everybody.
var Embedded = sync.OnceValue(func() *Corpus { return &Corpus{Name: "embedded", Tokens: bytesOf(generate(1 << 18))} })

// Open reads a corpus for a model of the given vocabulary. An empty path is Embedded. A file whose
// name ends in .bin holds tokens, see tokens.go; any other file, and the files of a
// folder, are text, a token a byte.
func Open(path string, vocab int) (*Corpus, error) {
	c, err := open(path)
	if err != nil {
		return nil, err
	}
	for i, t := range c.Tokens {
		if int(t) >= vocab {
			return nil, fmt.Errorf("data %s: token %d at %d: must be below model.vocab (%d)", c.Name, t, i, vocab)
		}
	}
	return c, nil
}

func open(path string) (*Corpus, error) {
	if path == "" {
		return Embedded(), nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("data %s: %w: must be a text file, a folder or a token file (.bin)", path, reason(err))
	}
	switch {
	case info.IsDir():
		return openFolder(path)
	case strings.HasSuffix(path, ".bin"):
		return openTokens(path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("data %s: %w", path, reason(err))
	}
	switch {
	case len(text) == 0:
		return nil, fmt.Errorf("data %s: is empty", path)
	case !isText(text):
		return nil, fmt.Errorf("data %s: is binary: must be UTF-8 text, or a token file named .bin", path)
	}
	return &Corpus{Name: path, Tokens: bytesOf(text)}, nil
}

// openFolder joins the text files below a folder, in the order of their paths, by a
// newline. Hidden and binary files are left out.
func openFolder(path string) (*Corpus, error) {
	var all []byte
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p != path && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if len(text) > 0 && isText(text) {
			all = append(append(all, text...), '\n')
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("data %s: %w", path, reason(err))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("data %s: holds no text files", path)
	}
	return &Corpus{Name: path, Tokens: bytesOf(all)}, nil
}

// isText: valid UTF-8 without NUL.
func isText(b []byte) bool { return utf8.Valid(b) && !strings.ContainsRune(string(b), 0) }

func bytesOf(text []byte) []uint16 {
	tokens := make([]uint16, len(text))
	for i, b := range text {
		tokens[i] = uint16(b)
	}
	return tokens
}

// reason is what went wrong without the path, which the caller names.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Unigram is the entropy in nats of the corpus' own token frequencies: the loss of the
// best model that looks at nothing.
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
