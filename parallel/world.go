package parallel

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"

	"firstbit/device"
)

// World is the ranks of a run and the groups they form.
type World struct {
	Layout
	Node int // ranks of a simulated node

	dp *Group

	mu      sync.Mutex
	running int            // ranks that neither wait nor have ended
	waits   int            // ranks that wait
	waiting []*device.Call // by rank: the Call in which it waits, or nil
	ended   []bool
	failed  chan struct{} // closed at the first failure
	err     error
}

// NewWorld makes the groups of a layout.
func NewWorld(l Layout, node int) *World {
	w := &World{Layout: l, Node: node, waiting: make([]*device.Call, l.World()),
		ended: make([]bool, l.World()), failed: make(chan struct{})}
	w.dp = w.group("dp", l.World())
	return w
}

func (w *World) group(name string, n int) *Group {
	g := &Group{Name: name, world: w, Ranks: make([]int, n)}
	for i := range g.Ranks {
		g.Ranks[i] = i
	}
	return g
}

// Groups are the members of every group of more than one rank, by name.
func (w *World) Groups() map[string][]int {
	groups := map[string][]int{}
	if len(w.dp.Ranks) > 1 {
		groups[w.dp.Name] = w.dp.Ranks
	}
	return groups
}

// Rank is what one rank knows of the world.
type Rank struct {
	Index int
	World *World
}

// Rank is rank i of the world.
func (w *World) Rank(i int) Rank { return Rank{i, w} }

// DP is the group whose ranks have the same weights and other sequences.
func (r Rank) DP() Member { return Member{r.World.dp, r.Index} }

// stop ends the goroutine of a rank after the world has failed.
type stop struct{}

// Run runs every rank's body in a goroutine of its own and waits for all. It returns the first error:
// a body's, ranks that call different things at one meeting, or ranks that wait for ever.
func (w *World) Run(body func(r Rank) error) error {
	n := w.World()
	w.running = n
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					if _, stopped := p.(stop); !stopped {
						panic(p)
					}
				}
			}()
			if err := body(Rank{i, w}); err != nil {
				w.fail(err)
			}
			w.end(i)
		})
	}
	all.Wait()
	return w.err
}

func (w *World) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(err)
}

func (w *World) failLocked(err error) {
	if w.err == nil {
		w.err = err
		close(w.failed)
	}
}

func (w *World) end(rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[rank] = true
	w.running--
	w.checkLocked()
}

// wait says that a rank waits in a Call.
func (w *World) wait(rank int, where *device.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[rank] = where
	w.waits++
	w.running--
	w.checkLocked()
}

// resume says that the ranks' meeting is over.
func (w *World) resume(ranks []int, last int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range ranks {
		if r != last {
			w.waiting[r] = nil
		}
	}
	w.waits -= len(ranks) - 1
	w.running += len(ranks) - 1
}

// checkLocked fails the world when nobody runs and somebody waits.
func (w *World) checkLocked() {
	if w.running > 0 || w.waits == 0 || w.err != nil {
		return
	}
	w.failLocked(errors.New("parallel: ranks wait for ever: " + w.standing()))
}

// standing is where every rank stands: those that wait for one thing together.
func (w *World) standing() string {
	ranks := map[string][]int{}
	for r, where := range w.waiting {
		switch {
		case where != nil:
			what := "waits in " + describe(where)
			ranks[what] = append(ranks[what], r)
		case w.ended[r]:
			ranks["has ended"] = append(ranks["has ended"], r)
		}
	}
	var lines []string
	for what, who := range ranks { // sorted below
		lines = append(lines, fmt.Sprintf("%s %s", rankList(who), what))
	}
	sort.Strings(lines)
	return strings.Join(lines, "; ")
}

// rankList names a few ranks.
func rankList(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	const most = 4
	s := make([]string, 0, most)
	for _, r := range ranks[:min(most, len(ranks))] {
		s = append(s, fmt.Sprint(r))
	}
	if len(ranks) > most {
		return fmt.Sprintf("each of %d ranks (%s, …)", len(ranks), strings.Join(s, ", "))
	}
	return "each of ranks " + strings.Join(s, ", ")
}
