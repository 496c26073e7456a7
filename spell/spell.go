// Package spell finds the names nearest to one that does not exist, for messages that say what was meant.
package spell

import (
	"cmp"
	"slices"
	"strings"
)

// Distance is the least number of letters to insert, remove or change until s matches a pattern in which * stands for any
// text and ? for any one letter. Capitals are the same letters.
//
//	d(i,j) = min(d(i-1,j-1) + [p_i ≠ s_j], d(i-1,j) + 1, d(i,j-1) + 1), and for p_i = *: min(d(i-1,j), d(i,j-1))
//
// Source: Wagner & Fischer 1974; libraries of edit distances know no wildcards.
func Distance(pattern, s string) int {
	pattern, s = strings.ToLower(pattern), strings.ToLower(s)
	row := make([]int, len(s)+1) // of d, for the letters of the pattern so far
	for j := range row {
		row[j] = j
	}
	for i := range len(pattern) {
		p, diagonal := pattern[i], row[0]
		if p != '*' {
			row[0]++
		}
		for j := range len(s) {
			above := row[j+1]
			switch {
			case p == '*':
				row[j+1] = min(above, row[j])
			case p == '?' || p == s[j]:
				row[j+1] = diagonal
			default:
				row[j+1] = 1 + min(diagonal, above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(s)]
}

// Nearest lists the names at the least distances from a GLOB, at most so many, however far they are. Part of a name is near
// the whole: q is a letter away from *.q and from q.*.
func Nearest(glob string, names []string, most int) []string {
	if len(glob) > mostLetters { // no name is so long
		return nil
	}
	return nearest(names, most, func(name string) int {
		return min(Distance(glob, name), 1+Distance("*."+glob, name), 1+Distance(glob+".*", name))
	})
}

func nearest(names []string, most int, distance func(string) int) []string {
	type candidate struct {
		name string
		far  int
	}
	var all []candidate
	for _, name := range names {
		all = append(all, candidate{name, distance(name)})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Or(a.far-b.far, len(a.name)-len(b.name)) })
	var near []string
	for _, c := range all[:min(most, len(all))] {
		near = append(near, c.name)
	}
	return near
}

const (
	mostMeant   = 3
	mostLetters = 256
)

// like lists the names that a word may be a misspelling or the beginning of.
func like(word string, names []string) []string {
	if len(word) > mostLetters {
		return nil
	}
	var near []string
	for _, name := range names {
		begins := len(word) > 1 && strings.HasPrefix(strings.ToLower(name), strings.ToLower(word))
		if begins || Distance(word, name) <= allowed(word) {
			near = append(near, name)
		}
	}
	return nearest(near, mostMeant, func(name string) int { return Distance(word, name) })
}

// allowed is the number of wrong letters with which a word is still one that was meant. A swap of two is two.
func allowed(word string) int {
	switch n := len(word); {
	case n < 2:
		return 0
	case n < 4:
		return 1
	case n < 9:
		return 2
	}
	return 3
}

// Meant asks whether one of the names was meant, with a space behind; it is empty if none is like the word.
func Meant(word string, names []string) string {
	if word == "" || slices.Contains(names, word) { // it is not the name that is wrong
		return ""
	}
	if near := like(word, names); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "? "
	}
	return ""
}

// OneOf says what a word must be, and which of the names was meant.
func OneOf(word string, names []string) string {
	if len(names) == 1 {
		return "must be " + names[0]
	}
	return Meant(word, names) + "must be one of " + strings.Join(names, ", ")
}
