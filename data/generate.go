package data

import (
	"strconv"
	"strings"

	"firstbit/rng"
)

// generate writes n bytes of five registers, paragraph by paragraph: sentences of a small
// grammar, sums, nested brackets, records, and copied strings. They share an alphabet but
// little else, so experts have something to divide among themselves.
func generate(n int) []byte {
	s := rng.New(1, "corpus")
	registers := []func(*rng.Stream) string{sentences, sums, brackets, records, copies}
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(registers[s.Intn(len(registers))](s))
		b.WriteByte('\n')
	}
	return []byte(b.String()[:n])
}

func pick(s *rng.Stream, from []string) string { return from[s.Intn(len(from))] }

var (
	determiners = []string{"the", "a", "every", "some", "that"}
	adjectives  = []string{"small", "fused", "early", "narrow", "quiet", "second", "stale"}
	nouns       = []string{"kernel", "gradient", "router", "token", "expert", "ring", "tile", "bucket", "rank"}
	verbs       = []string{"adds", "drops", "waits for", "rounds", "follows", "repeats", "hides"}
	links       = []string{"because", "while", "until", "and then"}
)

func phrase(s *rng.Stream) string {
	p := pick(s, determiners) + " "
	if s.Intn(2) == 0 {
		p += pick(s, adjectives) + " "
	}
	return p + pick(s, nouns)
}

func clause(s *rng.Stream) string { return phrase(s) + " " + pick(s, verbs) + " " + phrase(s) }

func sentences(s *rng.Stream) string {
	var out []string
	for range 2 + s.Intn(3) {
		c := clause(s)
		if s.Intn(3) == 0 {
			c += " " + pick(s, links) + " " + clause(s)
		}
		out = append(out, c+".")
	}
	return strings.Join(out, " ")
}

func sums(s *rng.Stream) string {
	var out []string
	for range 4 + s.Intn(6) {
		a, b := s.Intn(50), s.Intn(50)
		out = append(out, strconv.Itoa(a)+"+"+strconv.Itoa(b)+"="+strconv.Itoa(a+b)+";")
	}
	return strings.Join(out, " ")
}

// brackets is a random walk that closes what it opened.
func brackets(s *rng.Stream) string {
	const open, closing = "([{", ")]}"
	var b strings.Builder
	var stack []int
	for range 20 + s.Intn(40) {
		if len(stack) > 0 && (len(stack) > 6 || s.Intn(2) == 0) {
			top := len(stack) - 1
			b.WriteByte(closing[stack[top]])
			stack = stack[:top]
			continue
		}
		kind := s.Intn(3)
		stack = append(stack, kind)
		b.WriteByte(open[kind])
	}
	for i := len(stack) - 1; i >= 0; i-- {
		b.WriteByte(closing[stack[i]])
	}
	return b.String()
}

func records(s *rng.Stream) string {
	keys := []string{"rank", "step", "seed", "loss", "lr"}
	var out []string
	for _, k := range keys {
		if s.Intn(4) > 0 {
			out = append(out, k+"="+strconv.Itoa(s.Intn(100)))
		}
	}
	return strings.Join(out, ", ") + " |"
}

// copies is a word and its repetition: what follows is on the same line already.
func copies(s *rng.Stream) string {
	var b strings.Builder
	for range 3 {
		var word strings.Builder
		for range 3 + s.Intn(5) {
			word.WriteByte(byte('a' + s.Intn(26)))
		}
		b.WriteString("<" + word.String() + "|" + word.String() + "|" + word.String() + "> ")
	}
	return strings.TrimSpace(b.String())
}
