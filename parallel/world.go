package parallel

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"firstbit/device"
)

// World is the ranks of a run and the groups they form.
type World struct {
	Layout
	Node int // ranks of a simulated node

	// Crash makes an error of what ends a rank, or of what ends the rank that does the work of a meeting, by a panic; nil: the
	// panic goes on. It is called on the rank's goroutine.
	Crash func(rank int, p any) error

	groups  []*Group
	members map[string][]Member // by axis and rank

	// What a rank writes, it writes at its own place and before it counts down, so whoever counts down to 0 sees all.
	running atomic.Int64    // ranks that neither wait nor have ended
	waiting []*device.Call  // by rank: the Call in which it waits, or nil
	wake    []chan struct{} // by rank: what it waits for has been sent
	ended   []bool          // by rank
	errs    []error         // by rank: what its body returned, or what is wrong with the meeting that it waits in
	err     error           // of the run, once nobody runs
}

// NewWorld makes the groups of a layout.
func NewWorld(l Layout, node int) *World {
	n := l.World()
	w := &World{Layout: l.Full(), Node: node, waiting: make([]*device.Call, n), wake: make([]chan struct{}, n), ended: make([]bool, n), errs: make([]error, n)}
	for i := range w.wake {
		w.wake[i] = make(chan struct{}, 1)
	}
	w.form()
	return w
}

func (w *World) group(name string, ranks []int, perNode int) *Group {
	g := &Group{Name: name, world: w, Ranks: ranks, perNode: perNode, at: newMeeting(len(ranks))}
	w.groups = append(w.groups, g)
	return g
}

// Groups are the members of every group of more than one rank, by name.
func (w *World) Groups() map[string][]int {
	groups := map[string][]int{}
	for _, g := range w.groups {
		groups[g.Name] = g.Ranks
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

// Conflict is that ranks do not do what others wait for.
type Conflict struct{ text string }

// Error names the ranks and what they do.
func (c *Conflict) Error() string { return c.text }

func conflict(format string, a ...any) error {
	return &Conflict{fmt.Sprintf("parallel: "+format, a...)}
}

// stop ends the goroutine of a rank after the world has failed.
type stop struct{}

// Run runs every rank's body in a goroutine of its own and waits for all. It returns the error of the lowest rank
// that has one: its body's, or that of a meeting in which ranks call different things; without any, that ranks
// wait for ever.
//
// An error stops nobody but the ranks that wait for the one that has it. All others run until they end or wait, which
// does not depend on who is faster; only then is it said what went wrong, so the same mistake has the same error.
func (w *World) Run(body func(r Rank) error) error {
	n := w.World()
	w.running.Store(int64(n))
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
			w.errs[i] = w.attempt(i, func() error { return body(Rank{i, w}) })
			w.ended[i] = true
			w.pause()
		})
	}
	all.Wait()
	return w.err
}

// attempt makes an error of a panic if the world does.
func (w *World) attempt(rank int, do func() error) (err error) {
	if w.Crash == nil {
		return do()
	}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, stopped := p.(stop); !stopped {
			err = w.Crash(rank, p)
		}
		if err == nil {
			panic(p)
		}
	}()
	return do()
}

// wait holds a rank in a Call until the meeting is over, or what it waits for is there.
func (w *World) wait(rank int, where *device.Call, over <-chan struct{}) {
	w.waiting[rank] = where
	w.pause()
	<-over
	if w.err != nil {
		panic(stop{})
	}
	w.waiting[rank] = nil
}

// resume says that so many ranks that waited run again.
func (w *World) resume(ranks int) { w.running.Add(int64(ranks)) }

// pause says that a rank no longer runs. When none does, the run is at its end, or nobody can ever go on.
func (w *World) pause() {
	if w.running.Add(-1) > 0 {
		return
	}
	w.err = w.outcome()
	if w.err == nil {
		return
	}
	for _, g := range w.groups { // those who wait anywhere
		close(g.at.over)
	}
	for _, c := range w.wake { // empty, for nobody runs who was woken
		c <- struct{}{}
	}
}

// outcome is what went wrong, once nobody runs; nil: nothing.
func (w *World) outcome() error {
	if err := cmp.Or(w.errs...); err != nil {
		return err
	}
	if slices.ContainsFunc(w.waiting, func(c *device.Call) bool { return c != nil }) {
		return conflict("ranks wait for ever: %s", w.standing())
	}
	return w.undelivered()
}

// standing is where every rank stands: those that wait for one thing together.
func (w *World) standing() string {
	ranks := map[string][]int{}
	for r, where := range w.waiting {
		switch {
		case where != nil:
			what := "waits in " + describe(where)
			if where.Peer != "" {
				what += " for " + where.Peer
			}
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
