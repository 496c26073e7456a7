package trace

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/zeebo/xxh3"

	"firstbit/parallel"
)

// Holding says which ranks of a trace have which steps, each as ParseSet reads it, or none. A step is an iteration with records, be it 0 of the
// initialisation or that of a restore.
type Holding struct {
	Ranks string `json:"ranks"`
	Steps string `json:"steps"`
}

const nothing = "none"

// textOf is a set of numbers as Holding has it.
func textOf(numbers []int) string {
	if len(numbers) == 0 {
		return nothing
	}
	var s Set
	for _, n := range numbers {
		s = append(s, Span{n, n})
	}
	return s.normal().String()
}

// asked is what a trace that is not whole yet is to hold.
func (o Options) asked(world int) []Holding {
	var ranks []int
	for rank := range world {
		if o.Ranks.Has(rank) {
			ranks = append(ranks, rank)
		}
	}
	steps := o.Steps
	if len(steps) == 0 {
		steps = Set{{0, math.MaxInt}}
	}
	return []Holding{{textOf(ranks), steps.normal().String()}}
}

// Held is the steps of a rank and the digest of its last file.
type Held struct {
	Rank  int
	Steps []int
	Last  string
}

// Close says what a whole trace holds, rank by rank, and with which step its run ended.
func (r *Run) Close(last int, held []Held) {
	r.Last, r.Holds = &last, nil
	var ends strings.Builder
	ranks := map[string][]int{} // by their steps
	var order []string
	for _, h := range held {
		steps := textOf(h.Steps)
		if ranks[steps] == nil {
			order = append(order, steps)
		}
		ranks[steps] = append(ranks[steps], h.Rank)
		ends.WriteString(h.Last)
	}
	for _, steps := range order {
		r.Holds = append(r.Holds, Holding{textOf(ranks[steps]), steps})
	}
	r.Ends = hashOf([]byte(ends.String()))
}

// hashOf is XXH3-128 in hex.
func hashOf(b []byte) string {
	sum := xxh3.Hash128(b).Bytes()
	return hex.EncodeToString(sum[:])
}

// world is the number of ranks of the run.
func (r *Run) world() (int, error) {
	l, err := parallel.ParseLayout(r.Layout)
	if err != nil {
		return 0, fmt.Errorf("run.json: %w", err)
	}
	return l.World(), nil
}
