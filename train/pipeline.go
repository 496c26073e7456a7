package train

import (
	"fmt"

	"firstbit/device"
	"firstbit/model"
	"firstbit/parallel"
)

// pipe is what a stage of a pipeline goes by.
type pipe struct {
	pieces  []*piece
	order   []parallel.Step // of its forwards and backwards
	ordered int             // of so many microbatches
	beside  beside
}

// piece is a run of layers of the rank's, with a lane for every microbatch that is under way in it: forward, and not yet backward.
type piece struct {
	lanes []*model.Model
	in    map[int]int // the lane of a microbatch under way
	free  []int
}

// enter gives a microbatch a lane.
func (t *Trainer) enter(i, micro int) int {
	p := t.pieces[i]
	if n := len(p.free); n > 0 {
		p.in[micro] = p.free[n-1]
		p.free = p.free[:n-1]
		return p.in[micro]
	}
	lane := len(p.in)
	for len(p.lanes) <= lane {
		p.lanes = append(p.lanes, t.weights.Piece(i))
	}
	p.in[micro] = lane
	return lane
}

// leave frees the lane of a microbatch.
func (p *piece) leave(micro int) int {
	lane := p.in[micro]
	delete(p.in, micro)
	p.free = append(p.free, lane)
	return lane
}

// microCompletion is the order in which microbatches complete: gradients, and losses as they are reported, add up
// in it. It is a choice as where they overlap.
var microCompletion = parallel.NewCompletion("micro", "microbatches", false)

// completion lists the microbatches of a step as they complete.
func (t *Trainer) completion() []int32 {
	if t.window == 1 {
		return onlyOne
	}
	t.dev.At(t.step, 0, device.Fwd)
	order := microCompletion.Of(t.dev.In("grads"), "accumulate", t.window, t.together())
	for _, micro := range order {
		if micro < 0 || int(micro) >= t.window {
			panic(fmt.Sprintf("train: microbatch %d completes: must be from 0 to %d", micro, t.window-1))
		}
	}
	return order
}

// together is the place of all ranks that must take their microbatches in one order: those that share them, and those that
// send tokens to one another's experts.
func (t *Trainer) together() *device.Coord {
	if t.rank.EP().Size()*t.rank.ETP().Size() > 1 {
		return &device.Coord{}
	}
	return &device.Coord{DP: t.rank.DP().Index}
}

var onlyOne = []int32{0}

// pipeline takes the microbatches of a step through the rank's pieces. In a pipeline their order is that of its stages, which must
// agree on it.
func (t *Trainer) pipeline() {
	l := t.rank.Layout()
	if l.PP == 1 {
		for _, micro := range t.completion() {
			t.forward(0, int(micro))
			t.backward(0, int(micro))
		}
		return
	}
	if t.ordered != t.window {
		t.order, t.ordered = parallel.Pipeline(l.PP, l.VPP, t.rank.PP().Index, t.window), t.window
	}
	for i := 0; i < len(t.order); i++ {
		s := t.order[i]
		if t.paired(i) {
			t.alternate(s, t.order[i+1])
			i++
		} else if s.Backward {
			t.backward(s.Chunk, s.Micro)
		} else {
			t.forward(s.Chunk, s.Micro)
		}
	}
}

func (t *Trainer) forward(i, micro int) { t.forwardIn(i, micro, t.enter(i, micro)) }

func (t *Trainer) forwardIn(i, micro, lane int) {
	m, dev, b := t.pieces[i].lanes[lane], t.dev.Lane(lane), t.batchOf(laneOfPiece{i, lane})
	dev.At(t.step, micro, device.Fwd)
	m.Sample, m.Starts = t.sample(micro), b.starts
	switch {
	case m.Reads():
		t.deal(dev, b, micro)
	case b.starts != nil: // layers between the ends read where documents begin
		t.deal(dev.In(chunkLabels.At(m.Index)), b, micro)
	}
	y, l := m.ForwardFrom(dev, t.receive(dev, m, m.Index-1), b.tokens, b.targets)
	for _, r := range m.Routers() {
		if r.BiasRate > 0 {
			r.CountTokens(dev.In(r.Scope))
		}
	}
	if i == 0 {
		t.losses.order = append(t.losses.order, micro)
	}
	t.keep(dev, m, i, micro, l)
	t.countLabels(dev, l.Labels)
	if y != nil {
		t.send(dev, m.Index+1, y)
	}
}

func (t *Trainer) backward(i, micro int) {
	lane := t.pieces[i].leave(micro)
	m, dev := t.pieces[i].lanes[lane], t.dev.Lane(lane)
	dev.At(t.step, micro, device.Bwd)
	grad := t.losses.gradient()
	tokenScale, lossScale := t.scales()
	dx := m.BackwardFrom(dev, t.receive(dev, m, m.Index+1), grad*tokenScale, grad*lossScale)
	if dx != nil {
		t.send(dev, m.Index-1, dx)
	}
}

// receive takes what the piece from, before m or after it, sends to m; nil beyond the ends of the pipeline.
func (t *Trainer) receive(dev *device.Device, m *model.Model, from int) *device.Tensor {
	_, _, phase := dev.Where()
	if x := t.beside.came[phase]; x != nil {
		delete(t.beside.came, phase)
		return x
	}
	if !t.within(from) {
		return nil
	}
	at, shape := t.sender(from)
	return t.rank.PP().Recv(dev.In("pipeline"), chunkLabels.At(m.Index), at, t.weights.Format(), shape...)
}

// sender is the stage that has a piece, and the shape of what it sends.
func (t *Trainer) sender(piece int) (stage int, shape []int) {
	l := t.rank.Layout()
	return piece % l.PP, []int{t.Batch * t.Seq / (l.CP * l.TP), t.Config.Model.Width}
}

// within tells whether there is such a piece.
func (t *Trainer) within(piece int) bool {
	return piece >= 0 && piece < t.rank.Layout().PP*t.rank.Layout().VPP
}

// send gives x to a piece.
func (t *Trainer) send(dev *device.Device, to int, x *device.Tensor) {
	t.rank.PP().Send(dev.In("pipeline"), chunkLabels.At(to), to%t.rank.Layout().PP, x)
}

// The labels of what is sent to a piece, and of what a rank keeps of a microbatch's losses.
var chunkLabels, lossLabels = device.NewLabels("chunk."), device.NewLabels("losses.")
