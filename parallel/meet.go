package parallel

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"firstbit/device"
	"firstbit/lowp"
)

// Group is ranks that meet, in the order in which their values are numbered.
type Group struct {
	Name  string
	Ranks []int

	world   *World
	perNode int // members that lie on one simulated node

	// The last to come to a meeting sets these, while the others wait.
	at       *meeting // the next one
	messages map[message][]part

	office
}

// Member is a rank's place in a group. One without a group is alone: what it would add or gather is its own.
type Member struct {
	*Group
	Index int // in Ranks
}

// Size is the number of ranks; 1 without a group.
func (g *Group) Size() int {
	if g == nil {
		return 1
	}
	return len(g.Ranks)
}

// Nodes is the number of simulated nodes that the ranks lie on.
func (g *Group) Nodes() int { return (g.Size() + g.perNode - 1) / g.perNode }

// meeting is one collective under way.
type meeting struct {
	calls []*device.Call // by member
	came  atomic.Int32
	over  chan struct{} // closed when the work is done, or when the world has failed
}

func newMeeting(n int) *meeting {
	return &meeting{calls: make([]*device.Call, n), over: make(chan struct{})}
}

// meet brings a Call together with the other members'. The last to come does the work for all; nobody
// leaves before it is done.
//
// Whether Calls agree is looked at when all are there, in the order of the members, so that what is found does
// not depend on who came when.
func (m Member) meet(c *device.Call, work func(calls []*device.Call)) {
	g := m.Group
	at, rank := g.at, g.Ranks[m.Index]
	at.calls[m.Index] = c
	if at.came.Add(1) < int32(len(g.Ranks)) {
		g.world.wait(rank, c, at.over)
		return
	}
	err := g.world.attempt(rank, func() error {
		if err := g.clash(at.calls); err != nil {
			return err
		}
		work(at.calls)
		return nil
	})
	if err != nil { // whoever came last, it is the first member's: it waits, so nobody else writes there
		g.world.errs[g.Ranks[0]] = err
		g.world.wait(rank, c, at.over)
		return
	}
	g.at = newMeeting(len(g.Ranks))
	g.world.resume(len(g.Ranks) - 1)
	close(at.over)
}

// clash says which two Calls do not belong together; nil: none.
func (g *Group) clash(calls []*device.Call) error {
	for i, c := range calls {
		if why := disagree(calls[0], c); why != "" {
			return conflict("ranks of group %s meet in different calls: rank %d in %s, rank %d in %s: %s",
				g.Name, g.Ranks[0], describe(calls[0]), g.Ranks[i], describe(c), why)
		}
		if why := misfit(c, i, len(calls)); why != "" {
			return conflict("ranks of group %s meet in different calls: rank %d in %s %s", g.Name, g.Ranks[i], describe(c), why)
		}
	}
	return g.unexpected(calls)
}

func describe(c *device.Call) string {
	return fmt.Sprintf("%s %s (%s) of step %d microbatch %d", c.ID.Phase, c.ID.Path, c.Kernel.Name, c.ID.Step, c.ID.Micro)
}

// disagree says what two Calls that meet do not have in common; empty: nothing.
func disagree(a, b *device.Call) string {
	switch {
	case a == b:
		return ""
	case a.Kernel.Name != b.Kernel.Name || a.ID.Path != b.ID.Path:
		return "they are different calls"
	case a.ID.Step != b.ID.Step || a.ID.Micro != b.ID.Micro || a.ID.Phase != b.ID.Phase:
		return "they are of different times"
	case len(a.Scalars) != len(b.Scalars):
		return "they bring different numbers of tensors"
	}
	for i, s := range a.Scalars {
		if s.Name != b.Scalars[i].Name || lowp.Bits(s.Value) != lowp.Bits(b.Scalars[i].Value) {
			return fmt.Sprintf("%s is %g and %g", s.Name, s.Value, b.Scalars[i].Value)
		}
	}
	bring, brings := a.In, b.In
	if a.Kernel == broadcast || a.Kernel == allGather { // only the root brings something, or each its own part; it goes to where all have the same
		bring, brings = a.Out, b.Out
	}
	if len(bring) != len(brings) {
		return "they bring different numbers of tensors"
	}
	for i := range bring {
		x, y := bring[i].Tensor, brings[i].Tensor
		if x.Format != y.Format {
			return fmt.Sprintf("%s is %s and %s", bring[i].Name, x.Format, y.Format)
		}
		if !alike(a.Kernel, x, y) {
			return fmt.Sprintf("%s is %s and %s", bring[i].Name, shape(x), shape(y))
		}
	}
	if !a.Plan.Equal(b.Plan) { // last: of another format, the plan is another anyway
		return fmt.Sprintf("their plans are %q and %q", a.Plan, b.Plan)
	}
	return ""
}

// alike tells whether two members may bring these: what is sent to each differs in rows.
func alike(k *device.Kernel, x, y *device.Tensor) bool {
	switch k {
	case allToAll:
		return width(x) == width(y)
	}
	return slices.Equal(x.Shape(), y.Shape())
}

// misfit says why a member's Call cannot be its own; empty: it can.
func misfit(c *device.Call, member, size int) string {
	switch c.Kernel {
	case allGather:
		n := int(c.Scalar("n"))
		lo, hi := Shard(n, size, member)
		have := 0
		for _, part := range c.Inputs("*") {
			have += part.Len()
		}
		if have != hi-lo {
			return fmt.Sprintf("brings a shard of %d of %d elements: must be %d", have, n, hi-lo)
		}
	case allToAll:
		if have, sent := rows(c.Input("x")), total(c.Input("send").I32()); have != sent {
			return fmt.Sprintf("brings %d rows and sends %d", have, sent)
		}
	}
	return ""
}

func shape(t *device.Tensor) string { return strings.ReplaceAll(fmt.Sprint(t.Shape()), " ", "×") }
