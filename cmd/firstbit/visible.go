package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Names come from traces, checkpoints, configurations and the file system, and may hold whatever moves a cursor, sets a title or turns
// text around. Everything that is printed passes here, so none of it reaches a terminal.

// visible is text with escapes for what a terminal would obey or not show. They are JSON's, so an object that is printed stays one of the same value.
func visible(p []byte) []byte {
	if clean(p) {
		return p
	}
	var b []byte
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		switch {
		case r == utf8.RuneError && size == 1:
			b = fmt.Appendf(b, `\ufffd`)
		case shown(r):
			b = utf8.AppendRune(b, r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				b = fmt.Appendf(b, `\u%04x`, unit)
			}
		}
		p = p[size:]
	}
	return b
}

func shown(r rune) bool { return r == '\n' || r == '\t' || unicode.IsGraphic(r) }

func clean(p []byte) bool {
	for rest := p; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 || !shown(r) {
			return false
		}
		rest = rest[size:]
	}
	return true
}

// oneLine is a message of one line.
func oneLine(message string) string {
	return string(visible([]byte(strings.NewReplacer("\n", " ", "\t", " ").Replace(message))))
}

// visibly writes to standard error.
type visibly struct{ to io.Writer }

func (v visibly) Write(p []byte) (int, error) {
	live.clear()
	if _, err := v.to.Write(visible(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
