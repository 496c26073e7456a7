package parallel

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"firstbit/device"
)

// Group is ranks that meet, in the order in which their values are numbered.
type Group struct {
	Name  string
	Ranks []int

	world *World
	mu    sync.Mutex
	at    *meeting // the one under way; nil: none
}

// Member is a rank's place in a group.
type Member struct {
	*Group
	Index int // in Ranks
}

// Size is the number of ranks.
func (g *Group) Size() int { return len(g.Ranks) }

// Nodes is the number of simulated nodes that the ranks lie on.
func (g *Group) Nodes() int { return (g.Size() + g.world.Node - 1) / g.world.Node }

// meeting is one collective under way.
type meeting struct {
	calls []*device.Call // by member
	first int            // the member that came first
	count int
	done  chan struct{}
}

// meet brings a Call together with the other members'. The last to come does the work for all; nobody
// leaves before it is done.
func (m Member) meet(c *device.Call, work func(calls []*device.Call)) {
	g := m.Group
	g.mu.Lock()
	at := g.at
	if at == nil {
		at = &meeting{calls: make([]*device.Call, len(g.Ranks)), first: m.Index, done: make(chan struct{})}
		g.at = at
	}
	if first := at.calls[at.first]; first != nil {
		if why := disagree(first, c); why != "" {
			g.mu.Unlock()
			g.world.fail(fmt.Errorf("parallel: ranks of group %s meet in different calls: rank %d in %s, rank %d in %s: %s",
				g.Name, g.Ranks[at.first], describe(first), g.Ranks[m.Index], describe(c), why))
			panic(stop{})
		}
	}
	at.calls[m.Index] = c
	at.count++
	if at.count == len(g.Ranks) {
		g.at = nil
		g.mu.Unlock()
		work(at.calls)
		g.world.resume(g.Ranks, g.Ranks[m.Index])
		close(at.done)
		return
	}
	g.world.wait(g.Ranks[m.Index], c) // before the last can come
	g.mu.Unlock()
	select {
	case <-at.done:
	case <-g.world.failed:
		panic(stop{})
	}
}

func describe(c *device.Call) string {
	return fmt.Sprintf("%s %s (%s) of step %d microbatch %d", c.ID.Phase, c.ID.Path, c.Kernel.Name, c.ID.Step, c.ID.Micro)
}

// disagree says what two Calls that meet do not have in common; empty: nothing.
func disagree(a, b *device.Call) string {
	switch {
	case a.Kernel != b.Kernel || a.ID.Path != b.ID.Path:
		return "they are different calls"
	case a.ID.Step != b.ID.Step || a.ID.Micro != b.ID.Micro || a.ID.Phase != b.ID.Phase:
		return "they are of different times"
	case len(a.In) != len(b.In) || len(a.Scalars) != len(b.Scalars):
		return "they bring different numbers of tensors"
	case !a.Plan.Equal(b.Plan):
		return fmt.Sprintf("their plans are %q and %q", a.Plan, b.Plan)
	}
	for i, s := range a.Scalars {
		if s != b.Scalars[i] {
			return fmt.Sprintf("%s is %g and %g", s.Name, s.Value, b.Scalars[i].Value)
		}
	}
	for i := range a.In {
		x, y := a.In[i].Tensor, b.In[i].Tensor
		if x.Format != y.Format {
			return fmt.Sprintf("%s is %s and %s", a.In[i].Name, x.Format, y.Format)
		}
		if a.Kernel != allGather && !slices.Equal(x.Shape(), y.Shape()) { // shards differ in length
			return fmt.Sprintf("%s is %s and %s", a.In[i].Name, shape(x), shape(y))
		}
	}
	return ""
}

func shape(t *device.Tensor) string { return strings.ReplaceAll(fmt.Sprint(t.Shape()), " ", "×") }
