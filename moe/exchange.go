package moe

import (
	"fmt"

	"firstbit/device"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/nn"
)

// exchange is the way of a microbatch's rows to the ranks that have their experts, and back: numbers to the owners, rows to
// the owners, what several ranks of an expert received to all of them, and what came sorted by expert.
type exchange struct {
	scope          string
	send, receive  *device.Tensor // rows for and from every rank of EP
	parts          *device.Tensor // rows that every rank of ETP received
	own, most      int            // those of this rank; the most of them
	rows           int            // of this rank's own, all of which may go to one other
	order, inverse *device.Tensor // the received row of each sorted one; the sorted row of each received one, or −1
}

var (
	expertCounts = &device.Kernel{Name: "expert_counts", In: device.Names("offsets"), Out: device.Names("counts"), Run: runExpertCounts}
	splitRows    = &device.Kernel{Name: "split_rows", In: device.Names("counts received gathered"), Out: device.Names("send receive parts"),
		Run: runSplitRows}
	sortChunksKernel = &device.Kernel{Name: "sort_chunks", In: device.Names("counts"), Scalars: device.Names("parts most"),
		Out: device.Names("order inverse offsets bounds?"),
		Run: runSortChunks}
	placeRowsKernel = &device.Kernel{Name: "gather_rows", In: device.Names("x order"), Out: device.Names("y"),
		Run: device.Width(runPlaceRows[float32], runPlaceRows[float64])}
	padRows = &device.Kernel{Name: "pad", In: device.Names("x parts"), Out: device.Names("y"),
		Run: device.Width(runPad[float32], runPad[float64])}
	tokenRows = &device.Kernel{Name: "token_ids", In: device.Names("order"), Scalars: device.Names("first k"), Out: device.Names("tokens"),
		Run: runTokenRows}
)

// spread tells whether experts lie on several ranks.
func (m *MoE) spread() bool { return m.EP.Size() > 1 || m.ETP.Size() > 1 }

// ways finds who sends how many rows to whom, and in which order the experts have what came. The local rows lie by
// expert already; offsets say where each begins.
func (m *MoE) ways(dev *device.Device, offsets *device.Tensor) (local *device.Tensor) {
	ep, etp := m.EP.Size(), m.ETP.Size()
	c := dev.Open("dispatch.local", expertCounts)
	c.Read("offsets", offsets)
	counts := c.Write("counts", lowp.INT32, ep, m.Config.Experts/ep)
	c.Do()

	if m.ones == nil {
		m.ones = device.NewTensor(lowp.INT32, ep)
		for i := range m.ones.I32() {
			m.ones.I32()[i] = 1
		}
	}
	received := m.EP.AllToAll(dev, "dispatch.counts", counts, m.ones, m.ones) // (ep,E/ep)
	all := m.ETP.Gather(dev, "dispatch.counts.gather", received, 1)           // (etp·ep,E/ep)

	c = dev.Open("dispatch.split", splitRows)
	c.Read("counts", counts)
	c.Read("received", received)
	c.Read("gathered", all)
	m.way = exchange{scope: dev.Scope(), rows: m.order.Len(), send: c.Write("send", lowp.INT32, ep), receive: c.Write("receive", lowp.INT32, ep)}
	m.way.parts = c.Write("parts", lowp.INT32, etp)
	c.Do()
	m.way.possible("parts", m.way.parts, ep*m.way.rows)
	total := 0
	for i, n := range m.way.parts.I32() {
		total += int(n)
		m.way.most = max(m.way.most, int(n))
		if i == m.ETP.Index {
			m.way.own = int(n)
		}
	}
	return m.sort(dev, all, total)
}

// check looks at the numbers of rows before memory is taken for them: ranks have as many rows each.
func (w *exchange) check() {
	w.possible("send", w.send, w.rows)
	w.possible("receive", w.receive, w.rows)
}

// possible panics at a number of rows that nobody can have.
func (w *exchange) possible(what string, n *device.Tensor, most int) {
	for i, n := range n.I32() {
		if n < 0 || int(n) > most {
			panic(fmt.Sprintf("moe: %s.dispatch.split: %s[%d] is %d rows: must be from 0 to %d", w.scope, what, i, n, most))
		}
	}
}

// sort orders what was received by expert, then by the rank it came from, then as it came.
func (m *MoE) sort(dev *device.Device, counts *device.Tensor, rows int) (offsets *device.Tensor) {
	experts, sources := counts.Cols(), m.sources()
	c := dev.Open("dispatch.sort", sortChunksKernel)
	c.Read("counts", counts)
	c.ReadScalar("parts", float64(m.ETP.Size()))
	c.ReadScalar("most", float64(m.way.most))
	m.way.order = c.Write("order", lowp.INT32, rows)
	m.way.inverse = c.Write("inverse", lowp.INT32, m.ETP.Size()*m.way.most)
	offsets = c.Write("offsets", lowp.INT32, experts+1)
	m.Experts.bounds = offsets
	if sources > 1 {
		m.Experts.bounds = c.Write("bounds", lowp.INT32, experts*sources+1)
	}
	c.Do()
	return offsets
}

// apart tells whether the weight gradients of each data rank whose tokens come here are kept apart until the step ends, and sums over tokens
// are cut by their places in the microbatch: where the uses of the experts' weights are.
func (m *MoE) apart() bool {
	_, ok := m.Experts.W1.Accumulator.(*nn.ByUse)
	return ok
}

// sources is how many data ranks' tokens the owner of an expert sees, where they are kept apart.
func (m *MoE) sources() int {
	if !m.apart() {
		return 1
	}
	return max(m.EP.Size()*m.ETP.Size()/m.sharers(), 1)
}

// sharers is how many ranks share a microbatch.
func (m *MoE) sharers() int { return m.Router.TP.Size() * m.Router.CP.Size() }

// tokens is the token that each local row is of: of the microbatch, of all ranks that share it, behind those of the data ranks before this
// one whose tokens the owner of an expert sees.
func (m *MoE) tokens(dev *device.Device, rows int) *device.Tensor {
	place := m.Router.CP.Index*m.Router.TP.Size() + m.Router.TP.Index
	if m.sources() > 1 {
		place += (m.EP.Index*m.ETP.Size() + m.ETP.Index) / m.sharers() * m.sharers()
	}
	c := dev.Open("dispatch.tokens", tokenRows)
	c.Read("order", m.order)
	c.ReadScalar("first", float64(place*rows))
	c.ReadScalar("k", float64(m.TopK))
	t := c.Write("tokens", lowp.INT32, m.order.Len())
	c.Do()
	return t
}

// there takes local rows to their experts. A suffix names the gradients' way.
func (m *MoE) there(dev *device.Device, name, gather, suffix string, x *device.Tensor) *device.Tensor {
	if !m.spread() {
		return x
	}
	m.way.check()
	return m.sorted(dev, name, gather, suffix, m.EP.AllToAll(dev, name+".a2a"+suffix, x, m.way.send, m.way.receive))
}

// sorted lays received rows down as their experts want them.
func (m *MoE) sorted(dev *device.Device, name, gather, suffix string, y *device.Tensor) *device.Tensor {
	if m.ETP.Size() > 1 {
		y = m.ETP.Gather(dev, name+"."+gather+suffix, m.resize(dev, name+".pad"+suffix, y, m.way.most), 1)
	}
	return rowsBy(dev, name+".rows"+suffix, y, m.way.order)
}

// overlaps tells whether something is computed while rows are on their way.
func (m *MoE) overlaps() bool { return m.Overlap && m.spread() }

// send is the way to the ranks of the owners, with something computed beside it and something after it. What it brings is waited for before
// anything reads it, so no bit depends on what that is.
func (m *MoE) send(dev *device.Device, label string, x *device.Tensor, beside, after func()) *device.Tensor {
	m.way.check()
	p := m.EP.StartAllToAll(dev, label, x, m.way.send, m.way.receive)
	beside()
	y := p.Wait()
	if after != nil {
		after()
	}
	return y
}

func (m *MoE) meanwhile() {
	if m.Meanwhile != nil {
		m.Meanwhile()
	}
}

// back takes the experts' rows, or what the ranks of an expert have of them, to where they came from, in format f.
func (m *MoE) back(dev *device.Device, name, scatter, suffix string, x *device.Tensor, f lowp.Format) *device.Tensor {
	if !m.spread() {
		return x
	}
	y := rowsBy(dev, name+".rows"+suffix, x, m.way.inverse)
	switch {
	case m.ETP.Size() == 1:
	case m.apart(): // each has the whole sums
		y = m.resize(dev, name+".unpad"+suffix, m.ETP.Slice(dev, name+".own"+suffix, y, 1), m.way.own)
	default:
		y = m.resize(dev, name+".unpad"+suffix, m.ETP.Scatter(dev, name+"."+scatter+suffix, y, 1, f), m.way.own)
	}
	m.way.check()
	return m.EP.AllToAll(dev, name+".a2a"+suffix, y, m.way.receive, m.way.send)
}

// rowsBy is the rows of x that by names, 0 where it names none.
func rowsBy(dev *device.Device, label string, x, by *device.Tensor) *device.Tensor {
	c := dev.Open(label, placeRowsKernel)
	c.Read("x", x)
	c.Read("order", by)
	y := likeRows(c, x, by.Len())
	c.Do()
	return y
}

// resize is the first rows of x, and rows of 0 behind them where there are more to be.
func (m *MoE) resize(dev *device.Device, label string, x *device.Tensor, rows int) *device.Tensor {
	c := dev.Open(label, padRows)
	c.Read("x", x)
	c.Read("parts", m.way.parts) // they say how many rows
	y := likeRows(c, x, rows)
	c.Do()
	return y
}

// likeRows declares so many rows as wide as those of x; of a vector, elements are rows.
func likeRows(c *device.Call, x *device.Tensor, rows int) *device.Tensor {
	if len(x.Shape()) == 1 {
		return c.Write("y", x.Format, rows)
	}
	return c.Write("y", x.Format, rows, x.Cols())
}

func runSplitRows(c *device.Call) {
	sumRuns(c.Output("send").I32(), c.Input("counts").I32())
	sumRuns(c.Output("receive").I32(), c.Input("received").I32())
	sumRuns(c.Output("parts").I32(), c.Input("gathered").I32())
}

func runExpertCounts(c *device.Call) {
	offsets, counts := c.Input("offsets").I32(), c.Output("counts").I32()
	for e := range counts {
		counts[e] = offsets[e+1] - offsets[e]
	}
}

func runSortChunks(c *device.Call) {
	counts, offsets := c.Input("counts"), c.Output("offsets").I32()
	bounds := offsets // of one source
	if b := c.Output("bounds"); b != nil {
		bounds = b.I32()
	}
	sortChunks(c.Output("order").I32(), c.Output("inverse").I32(), bounds, counts.I32(), counts.Cols(), int(c.Scalar("parts")), int(c.Scalar("most")))
	sources := (len(bounds) - 1) / (len(offsets) - 1)
	for e := range offsets {
		offsets[e] = bounds[e*sources]
	}
}

func runPlaceRows[T libm.Float](c *device.Call) {
	x, y, by := c.Input("x"), c.Output("y"), c.Input("order").I32()
	if x.Format == lowp.INT32 {
		placeRows(y.I32(), x.I32(), by)
		return
	}
	placeRows(device.Data[T](y), device.Data[T](x), by)
}

func runPad[T libm.Float](c *device.Call) {
	if y := c.Output("y").I32(); y != nil {
		clear(y[copy(y, c.Input("x").I32()):])
		return
	}
	y := device.Out[T](c, "y")
	clear(y[copy(y, device.In[T](c, "x")):])
}

func runTokenRows(c *device.Call) {
	first, k := int32(c.Scalar("first")), int32(c.Scalar("k"))
	tokens := c.Output("tokens").I32()
	for r, slot := range c.Input("order").I32() {
		tokens[r] = first + slot/k
	}
}
