//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// A damage is done to one file.
type damage struct {
	name string
	// edit is another text; nil: the file itself becomes something else, by replace.
	edit    func(r *rand.Rand, b []byte) []byte
	replace func(path string) error
}

// damages are those that any file may suffer. A text that comes out as it was counts for nothing, and another is drawn.
var damages = []damage{
	{name: "a bit flipped", edit: flipBits},
	{name: "bytes zeroed", edit: func(r *rand.Rand, b []byte) []byte { clear(span(r, b)); return b }},
	{name: "bytes drawn", edit: func(r *rand.Rand, b []byte) []byte {
		for i := range span(r, b) {
			b[i] = byte(r.Uint32())
		}
		return b
	}},
	{name: "cut short", edit: func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] }},
	{name: "its beginning lost", edit: func(r *rand.Rand, b []byte) []byte { return b[1+r.IntN(len(b)):] }},
	{name: "bytes more at the end", edit: func(r *rand.Rand, b []byte) []byte { return append(b, "\n{}\x00 1"[:1+r.IntN(6)]...) }},
	{name: "empty", edit: func(*rand.Rand, []byte) []byte { return nil }},
	{name: "twice", edit: func(_ *rand.Rand, b []byte) []byte { return append(b, b...) }},
	{name: "a line lost", edit: lines(func(r *rand.Rand, l [][]byte) [][]byte { i := r.IntN(len(l)); return slices.Delete(l, i, i+1) })},
	{name: "a line twice", edit: lines(func(r *rand.Rand, l [][]byte) [][]byte { i := r.IntN(len(l)); return slices.Insert(l, i, l[i]) })},
	{name: "lines swapped", edit: lines(func(r *rand.Rand, l [][]byte) [][]byte {
		i, j := r.IntN(len(l)), r.IntN(len(l))
		l[i], l[j] = l[j], l[i]
		return l
	})},
	{name: "a digit edited", edit: editDigit},
	{name: "a number replaced", edit: replaceNumber},
	{name: "a bracket lost", edit: func(r *rand.Rand, b []byte) []byte { return without(r, b, "{}[]\",:") }},
	{name: "brackets without end", edit: func(r *rand.Rand, b []byte) []byte {
		i := r.IntN(len(b))
		return slices.Insert(b, i, bytes.Repeat([]byte(pick(r, []string{"[", `{"a":`})), 200_000)...)
	}},
	{name: "escapes put in", edit: func(r *rand.Rand, b []byte) []byte {
		i := r.IntN(len(b))
		return slices.Insert(b, i, []byte(pick(r, []string{"\x1b[2J", `\u001b]0;x\u0007`, "\x00", "\xff\xfe", "\r", "\u202e"}))...)
	}},
	{name: "lost", replace: func(string) error { return nil }},
	{name: "a pipe", replace: func(path string) error { return syscall.Mkfifo(path, 0o600) }},
	{name: "a folder", replace: func(path string) error { return os.Mkdir(path, 0o777) }},
	{name: "a link to /dev/zero", replace: func(path string) error { return os.Symlink("/dev/zero", path) }},
	{name: "a link to itself", replace: func(path string) error { return os.Symlink(filepath.Base(path), path) }},
	{name: "a sparse file of 100 GB", replace: func(path string) error {
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			return err
		}
		return os.Truncate(path, 100<<30)
	}},
}

// damageFile damages a file and says how.
func damageFile(r *rand.Rand, path string) (kind string, err error) {
	before, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for {
		d := pick(r, damages)
		if d.edit == nil {
			if err := os.Remove(path); err != nil {
				return d.name, err
			}
			return d.name, d.replace(path)
		}
		if len(before) == 0 {
			continue
		}
		after := d.edit(r, bytes.Clone(before))
		if !bytes.Equal(before, after) {
			return d.name, os.WriteFile(path, after, 0o666)
		}
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func flipBits(r *rand.Rand, b []byte) []byte {
	for range 1 + r.IntN(3) {
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	}
	return b
}

// span is some bytes of a text.
func span(r *rand.Rand, b []byte) []byte {
	i := r.IntN(len(b))
	return b[i:min(len(b), i+1+r.IntN(64))]
}

// lines edits a text as lines, each with its end.
func lines(edit func(*rand.Rand, [][]byte) [][]byte) func(*rand.Rand, []byte) []byte {
	return func(r *rand.Rand, b []byte) []byte {
		l := bytes.SplitAfter(b, []byte("\n"))
		if n := len(l); len(l[n-1]) == 0 && n > 1 {
			l = l[:n-1]
		}
		return bytes.Join(edit(r, l), nil)
	}
}

// without is a text without one of the given bytes.
func without(r *rand.Rand, b []byte, which string) []byte {
	if at := where(b, func(c byte) bool { return bytes.IndexByte([]byte(which), c) >= 0 }); len(at) > 0 {
		i := pick(r, at)
		return slices.Delete(b, i, i+1)
	}
	return b
}

func where(b []byte, is func(byte) bool) (at []int) {
	for i, c := range b {
		if is(c) {
			at = append(at, i)
		}
	}
	return at
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func editDigit(r *rand.Rand, b []byte) []byte {
	if at := where(b, isDigit); len(at) > 0 {
		b[pick(r, at)] = byte('0' + r.IntN(10))
	}
	return b
}

// extremes are what numbers become.
var extremes = []string{"-1", "0", "-0", "1e308", "-1e308", "1e-320", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551616",
	"2147483647", "-2147483648", "4294967296", "1099511627776", "1.5", "null", "true", `"x"`, "[]", "{}", "1000000000"}

func replaceNumber(r *rand.Rand, b []byte) []byte {
	at := where(b, isDigit)
	if len(at) == 0 {
		return b
	}
	i := pick(r, at)
	j := i
	for ; i > 0 && isDigit(b[i-1]); i-- {
	}
	for ; j < len(b) && isDigit(b[j]); j++ {
	}
	return slices.Replace(b, i, j, []byte(pick(r, extremes))...)
}

// filesOf lists the regular files below a folder whose names have one of the beginnings.
func filesOf(dir string, beginnings ...string) ([]string, error) {
	all, err := snapshot(dir)
	var names []string
	for path := range all { // sorted below
		rel, _ := filepath.Rel(dir, path) // it lies below
		info, err := os.Lstat(path)
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() && slices.ContainsFunc(beginnings, func(b string) bool { return bytes.HasPrefix([]byte(rel), []byte(b)) }) {
			names = append(names, path)
		}
	}
	slices.Sort(names)
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s: no file named %v", dir, beginnings)
	}
	return names, err
}
