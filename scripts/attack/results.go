//go:build unix

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// worst is the most that a process took.
type worst struct {
	wall time.Duration
	peak int64
}

func (w *worst) join(other worst) {
	w.wall, w.peak = max(w.wall, other.wall), max(w.peak, other.peak)
}

// results are those of an attack.
type results struct {
	name     string
	began    time.Time
	mu       sync.Mutex
	kinds    map[string]*kindResult
	failed   int
	failures []error
}

type kindResult struct {
	tried, wrong int
	worst        worst
}

func newResults(name string) *results {
	return &results{name: name, began: time.Now(), kinds: map[string]*kindResult{}}
}

func (r *results) add(t *trial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kinds[t.kind]
	if k == nil {
		k = &kindResult{}
		r.kinds[t.kind] = k
	}
	k.tried++
	k.worst.join(t.worst)
	if t.failure != nil {
		k.wrong++
		r.failed++
		r.failures = append(r.failures, t.failure)
	}
}

const failuresShown = 12

func (r *results) print(out io.Writer) {
	total := kindResult{wrong: r.failed}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s\ttried\tright\twrong\tworst s\tworst MiB\t\n", r.name)
	row := func(name string, k kindResult) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.2f\t%d\t\n", name, k.tried, k.tried-k.wrong, k.wrong, k.worst.wall.Seconds(), k.worst.peak>>20)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.kinds)) {
		k := r.kinds[kind]
		row(kind, *k)
		total.tried += k.tried
		total.worst.join(k.worst)
	}
	row("all", total)
	w.Flush() // to a terminal or a file: what fails there is seen there
	fmt.Fprintf(out, "%s took %v\n", r.name, time.Since(r.began).Round(time.Second))
	for i, f := range r.failures {
		if i == failuresShown {
			fmt.Fprintf(out, "and %d failures more\n", len(r.failures)-i)
			break
		}
		fmt.Fprintf(out, "FAILED: %v\n", f)
	}
}
