package parallel

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"firstbit/device"
	"firstbit/lowp"
)

var (
	sendKernel = &device.Kernel{Name: "send", In: device.Names("x")}
	recvKernel = &device.Kernel{Name: "recv", Out: device.Names("y")}
)

const (
	sendSuffix = ".send"
	recvSuffix = ".recv"
	postSuffix = ".recv.post"
)

// site is where one member sends and another receives, again and again.
type site struct {
	from, to int
	phase    device.Phase
	path     string // scope and label
}

// mailbox is the messages of a site that have been sent and not yet taken.
type mailbox struct {
	sender, receiver string // as peers name them

	sync.Mutex
	letters []*letter
	spare   []*letter // to be written again
	waits   bool      // the receiver does, for the letter of its step and microbatch
	step    int
	micro   int
}

// letter is a copy of what was sent: the sender goes on, and writes its tensor again.
type letter struct {
	step, micro int
	x           *device.Tensor
}

// mailbox finds the one of a site.
func (g *Group) mailbox(s site) *mailbox {
	g.mail.Lock()
	defer g.mail.Unlock()
	b := g.boxes[s]
	if b == nil {
		name := func(member int, suffix string) string {
			return fmt.Sprintf("rank %d %s %s%s", g.Ranks[member], s.phase, s.path, suffix)
		}
		b = &mailbox{sender: name(s.from, sendSuffix), receiver: name(s.to, recvSuffix)}
		if g.boxes == nil {
			g.boxes = map[site]*mailbox{}
		}
		g.boxes[s] = b
	}
	return b
}

// Send gives x to a member, who takes it with Recv under the same scope and label, in the same step, microbatch and phase. It does not wait.
func (m Member) Send(dev *device.Device, label string, to int, x *device.Tensor) {
	m.other(to)
	c := dev.OpenKind(device.P2P, label+sendSuffix, sendKernel)
	b := m.mailbox(site{m.Index, to, c.ID.Phase, strings.TrimSuffix(c.ID.Path, sendSuffix)})
	c.Group, c.Peer = m.Name, b.receiver
	c.Read("x", x)
	c.Body = func(c *device.Call) { m.post(b, to, c) }
	c.Do()
}

// other refuses a message to oneself or to nobody.
func (m Member) other(member int) {
	if member < 0 || member >= m.Size() || m.Size() == 1 || member == m.Index {
		panic("parallel: a message goes to another member of the group")
	}
}

// post leaves a copy in the box, and wakes the receiver if that is what it waits for.
func (m Member) post(b *mailbox, to int, c *device.Call) {
	x := c.Input("x")
	b.Lock()
	defer b.Unlock()
	var l *letter
	if n := len(b.spare); n > 0 {
		l, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		l = &letter{}
	}
	l.step, l.micro = c.ID.Step, c.ID.Micro
	if l.x == nil || l.x.Format != x.Format || !slices.Equal(l.x.Shape(), x.Shape()) {
		l.x = device.NewTensor(x.Format, x.Shape()...)
	}
	l.x.CopyAt(0, x)
	b.letters = append(b.letters, l)
	if b.waits && b.step == l.step && b.micro == l.micro {
		b.waits = false
		m.world.resume(1) // before it can run, so that it is counted
		m.world.wake[m.Ranks[to]] <- struct{}{}
	}
}

// Recv waits for what a member sends.
//
// Shapes: → y (shape).
func (m Member) Recv(dev *device.Device, label string, from int, f lowp.Format, shape ...int) *device.Tensor {
	c := m.recv(dev, label, from, f, shape)
	c.Do()
	return c.Output("y")
}

func (m Member) recv(dev *device.Device, label string, from int, f lowp.Format, shape []int) *device.Call {
	m.other(from)
	c := dev.OpenKind(device.P2P, label+recvSuffix, recvKernel)
	b := m.mailbox(site{from, m.Index, c.ID.Phase, strings.TrimSuffix(c.ID.Path, recvSuffix)})
	c.Group, c.Peer = m.Name, b.sender
	c.Write("y", f, shape...)
	c.Body = func(c *device.Call) { m.take(b, c) }
	return c
}

// Post starts to receive what Recv would. The destination holds what it held before until Recv's Call, which the returned function runs, where
// the run is then.
func (m Member) Post(dev *device.Device, label string, from int, f lowp.Format, shape ...int) (wait func() *device.Tensor) {
	c := m.recv(dev, label, from, f, shape)
	post := dev.OpenKind(device.P2P, label+postSuffix, recvKernel)
	post.Group, post.Peer, post.Flags = c.Group, c.Peer, device.AsyncPending
	post.Update("y", c.Output("y"))
	post.Body = func(*device.Call) {}
	post.Do()
	return func() *device.Tensor {
		c.Do()
		return c.Output("y")
	}
}

// take waits for the letter of the Call's step and microbatch and copies it.
func (m Member) take(b *mailbox, c *device.Call) {
	rank := m.Ranks[m.Index]
	b.Lock()
	l := b.find(c.ID.Step, c.ID.Micro)
	if l == nil {
		b.waits, b.step, b.micro = true, c.ID.Step, c.ID.Micro
		b.Unlock()
		m.world.wait(rank, c, m.world.wake[rank])
		b.Lock()
		l = b.find(c.ID.Step, c.ID.Micro)
	}
	y := c.Output("y")
	if l.x.Format != y.Format || !slices.Equal(l.x.Shape(), y.Shape()) {
		m.world.errs[rank] = conflict("rank %d in %s expects %s of %s: %s sent %s of %s", rank, describe(c), y.Format, shape(y), b.sender, l.x.Format, shape(l.x))
		b.Unlock()
		m.world.wait(rank, c, m.world.wake[rank]) // for the end of the run
	}
	y.CopyAt(0, l.x)
	b.spare = append(b.spare, l)
	b.Unlock()
}

// find takes out the letter of a step and microbatch; nil: it is not there yet.
func (b *mailbox) find(step, micro int) *letter {
	for i, l := range b.letters {
		if l.step == step && l.micro == micro {
			b.letters = slices.Delete(b.letters, i, i+1)
			return l
		}
	}
	return nil
}

// undelivered says what was sent and never received; nil: nothing. Of several the first by name, so that it is always the same one.
func (w *World) undelivered() error {
	var lines []string
	for _, g := range w.groups {
		for _, b := range g.boxes { // sorted below
			for _, l := range b.letters {
				lines = append(lines, fmt.Sprintf("%s of step %d microbatch %d was never taken by %s", b.sender, l.step, l.micro, b.receiver))
			}
		}
	}
	if lines == nil {
		return nil
	}
	return conflict("%s", slices.Min(lines))
}

// office is the mailboxes of a group.
type office struct {
	mail  sync.Mutex
	boxes map[site]*mailbox
}
