package diff

import (
	"strings"

	"firstbit/trace"
)

// producer is the last record before the first mismatch that wrote what from names.
func (p *pair) producer(from string) int {
	phase, path := producerOf(from)
	last := -1
	for _, i := range p.byPath[phase+" "+path] {
		if i < p.first {
			last = i
		}
	}
	return last
}

// unseen tells whether what a record reads may have been written last in a step that was not compared.
func (p *pair) unseen(producer int, reader *trace.Record) bool {
	if producer < 0 {
		return p.window.unequal && p.level >= trace.Op
	}
	return p.window.broken(p.a[producer].Iteration, reader.Iteration)
}

// producerOf splits the name of a producer, without that of its output.
func producerOf(from string) (phase, path string) {
	from, _, _ = strings.Cut(from, "#")
	phase, path, _ = strings.Cut(from, " ")
	return phase, path
}
