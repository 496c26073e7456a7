package data

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"firstbit/files"
)

func openText(path string) (*Corpus, error) {
	text, err := readFile(path)
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return nil, fail(path, "is empty: must hold text")
	case !isText(text):
		return nil, fail(path, "is binary: must be text, or a token file named .bin")
	}
	return &Corpus{Name: path, Tokens: bytesOf(text), Documents: []int32{0}, Vocab: 256}, nil
}

func openFolder(path string) (*Corpus, error) {
	text, documents, err := joinText(os.DirFS(path), path)
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return nil, fail(path, "holds no text: must have text files that are not hidden")
	}
	return &Corpus{Name: path, Tokens: bytesOf(text), Documents: documents, Vocab: 256}, nil
}

// joinText joins the text files of a tree by newlines, each a document that its newline ends. Names are read in sorted order,
// folder by folder, so the text does not depend on the file system. Hidden files and folders,
// binary and empty files, and whatever is no regular file are skipped: links too, since
// they could lead out of the tree or round in it.
func joinText(tree fs.FS, name string) (all []byte, documents []int32, err error) {
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch hidden := p != "." && strings.HasPrefix(d.Name(), "."); {
		case err != nil:
			return fail(filepath.Join(name, p), "%w", files.Reason(err))
		case hidden && d.IsDir():
			return fs.SkipDir
		case hidden || !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err == nil && int64(len(all))+info.Size() >= bytesMax {
			return fail(filepath.Join(name, p), "%d bytes after %d of other files: must be at most %d together", info.Size(), len(all), int64(bytesMax))
		}
		text, err := fs.ReadFile(tree, p)
		switch {
		case err != nil:
			return fail(filepath.Join(name, p), "%w", files.Reason(err))
		case len(text) == 0 || !isText(text):
			return nil
		case all != nil:
			all = append(all, '\n')
		}
		documents = append(documents, int32(len(all)))
		all = append(all, text...)
		return nil
	})
	return all, documents, err
}

// isText tells text from binaries: no NUL, and of every ten bytes at most one that is no
// part of valid UTF-8, so that Latin-1 and files cut within a character pass.
func isText(b []byte) bool {
	if bytes.IndexByte(b, 0) >= 0 {
		return false
	}
	invalid := 0
	for rest := b; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			invalid++
		}
		rest = rest[size:]
	}
	return invalid <= len(b)/10
}

func bytesOf(text []byte) []uint16 {
	tokens := make([]uint16, len(text))
	for i, b := range text {
		tokens[i] = uint16(b)
	}
	return tokens
}
