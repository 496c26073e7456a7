package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// What is printed for people fits this many columns and, unless a flag asks for all of it, this many lines.
const terminalWidth, terminalLines = 80, 24

// isTerminal tells whether a person reads a file as it is written.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// coloured tells whether digits that differ are in colour, by the convention of no-color.org.
func coloured(f *os.File) bool {
	return isTerminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Digits between these two are in colour where there is colour: see output.Write. Nothing else between them is, so no name can
// colour what follows it.
const markOn, markOff = "\x0e", "\x0f"

var marked = regexp.MustCompile(markOn + `([0-9A-Za-z.+-]+)` + markOff)

// mark marks the digits of x that are not those of other. Of decimals of one length these are the last ones.
func mark(x, other string) string {
	if len(x) != len(other) {
		return x
	}
	var b strings.Builder
	for i := 0; i < len(x); {
		end := i + 1
		for end < len(x) && (x[end] == other[end]) == (x[i] == other[i]) {
			end++
		}
		if x[i] == other[i] {
			b.WriteString(x[i:end])
		} else {
			b.WriteString(markOn + x[i:end] + markOff)
		}
		i = end
	}
	return b.String()
}

// columns is how wide a text is.
func columns(text string) int {
	return utf8.RuneCountInString(text) - strings.Count(text, markOn) - strings.Count(text, markOff)
}

// wrap breaks a line that is too wide between its words. Lines after the first begin below the place of the line's tab, which is taken out,
// or two columns right of where its text begins.
func wrap(line string) string {
	head, rest, tabbed := strings.Cut(line, "\t")
	if !tabbed {
		rest = strings.TrimLeft(line, " ")
		head = line[:len(line)-len(rest)]
	}
	hang := columns(head)
	if !tabbed {
		hang += 2
	}
	var b strings.Builder
	b.WriteString(head)
	at, gap := columns(head), ""
	for len(rest) > 0 {
		end := strings.IndexByte(rest, ' ')
		if end < 0 {
			end = len(rest)
		}
		word := rest[:end]
		if gap != "" && at+len(gap)+columns(word) > terminalWidth {
			gap = "\n" + strings.Repeat(" ", hang)
			at = 0
		}
		b.WriteString(gap + word)
		at += len(strings.TrimPrefix(gap, "\n")) + columns(word)
		spaces := len(rest[end:]) - len(strings.TrimLeft(rest[end:], " "))
		gap, rest = rest[end:end+spaces], rest[end+spaces:]
	}
	return b.String()
}

// tell prints lines for people, each wrapped.
func tell(out io.Writer, format string, a ...any) {
	for line := range strings.SplitSeq(fmt.Sprintf(format, a...), "\n") {
		fmt.Fprintln(out, wrap(line))
	}
}
