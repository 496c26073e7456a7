package parallel

import "firstbit/device"

// allToAll runs at once, or starts and is waited for: the wait reads the result and the destination too.
var allToAll = &device.Kernel{Name: "all_to_all", In: device.Names("x send receive result? y?"), Scalars: device.Names("ranks nodes"), Out: device.Names("y")}

// AllToAll sends rows to every member, and returns the rows that every member sent, one member's after another's. send and
// receive are the rows for and from each.
//
// Shapes: x (Σ send,D), send (members), receive (members) → y (Σ receive,D).
func (m Member) AllToAll(dev *device.Device, label string, x, send, receive *device.Tensor) *device.Tensor {
	if m.Size() == 1 {
		return x
	}
	c := m.allToAll(dev, label, x, send, receive)
	c.Do()
	return c.Output("y")
}

func (m Member) allToAll(dev *device.Device, label string, x, send, receive *device.Tensor) *device.Call {
	if send.Len() != m.Size() || receive.Len() != m.Size() {
		panic("parallel: AllToAll with rows for another number of members")
	}
	c := m.open(dev, label, allToAll)
	c.Read("x", x)
	c.Read("send", send)
	c.Read("receive", receive)
	y := writeRows(c, x, x.Format, total(receive.I32()))
	c.Body = func(c *device.Call) {
		m.meet(c, func(calls []*device.Call) {
			each(calls, y.Len(), func(c *device.Call) { collect(c, calls) })
		})
	}
	return c
}

// collect is what one member receives.
func collect(c *device.Call, calls []*device.Call) {
	to := 0
	for calls[to] != c {
		to++
	}
	y, at, w := c.Output("y"), 0, width(c.Input("x"))
	for _, from := range calls {
		send := from.Input("send").I32()
		n := int(send[to]) * w
		move(y, at, from.Input("x"), total(send[:to])*w, n)
		at += n
	}
}

// unexpected says who sends rows to a member that expects another number; nil: nobody.
func (g *Group) unexpected(calls []*device.Call) error {
	if calls[0].Kernel != allToAll {
		return nil
	}
	for i, from := range calls {
		for j, to := range calls {
			if sent, expected := from.Input("send").I32()[j], to.Input("receive").I32()[i]; sent != expected {
				return conflict("ranks of group %s meet in different calls: rank %d in %s sends %d rows to rank %d, which expects %d",
					g.Name, g.Ranks[i], describe(from), sent, g.Ranks[j], expected)
			}
		}
	}
	return nil
}

func total(n []int32) int {
	sum := 0
	for _, v := range n {
		sum += int(v)
	}
	return sum
}
