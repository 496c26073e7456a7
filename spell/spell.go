// Package spell finds the names nearest to one that does not exist, for messages that say what was meant.
package spell

import (
	"cmp"
	"slices"
	"strings"
)

// Distance is the least number of letters to insert, remove, change or swap with the next until s matches a pattern in which *
// stands for any text and ? for any one letter. Capitals are the same letters.
//
//	d(i,j) = min(d(i-1,j-1) + [p_i ≠ s_j], d(i-1,j) + 1, d(i,j-1) + 1, d(i-2,j-2) + 1 if p_{i-1}p_i = s_j s_{j-1}),
//	and for p_i = *: min(d(i-1,j), d(i,j-1))
//
// Source: Damerau 1964, Wagner & Fischer 1974; libraries of edit distances know no wildcards.
func Distance(pattern, s string) int {
	p, s := strings.ToLower(pattern), strings.ToLower(s)
	before, above, row := make([]int, len(s)+1), make([]int, len(s)+1), make([]int, len(s)+1) // i-2, i-1, i
	for j := range row {
		row[j] = j
	}
	for i := range len(p) {
		before, above, row = above, row, before
		row[0] = above[0] + 1
		if p[i] == '*' {
			row[0] = above[0]
		}
		for j := range len(s) {
			switch {
			case p[i] == '*':
				row[j+1] = min(above[j+1], row[j])
				continue
			case p[i] == '?' || p[i] == s[j]:
				row[j+1] = above[j]
				continue
			}
			row[j+1] = 1 + min(above[j], above[j+1], row[j])
			if i > 0 && j > 0 && p[i-1] == s[j] && p[i] == s[j-1] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
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

// allowed is the number of wrong letters with which a word is still one that was meant.
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
