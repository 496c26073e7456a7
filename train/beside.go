package train

import (
	"errors"
	"iter"

	"firstbit/device"
	"firstbit/model"
	"firstbit/parallel"
)

// Where a stage does forwards and backwards in turn, with overlap one of each goes on beside the other: the forward lets the backward run
// once its experts' rows have come, until the gradients of rows are on their way in the backward, and goes on. So the experts of the one compute
// while the network is busy with the other. Both take turns on one rank; no two Calls of a rank ever run at once.
//
// A stream is drawn from by forwards alone or by backwards alone, and only backwards add to gradients, so everything is in the same order as
// without.

// beside is a backward under way beside a forward; the zero value: there is none.
type beside struct {
	next    func() (struct{}, bool) // runs it to its next stop
	yield   func(struct{}) bool     // stops it
	running bool                    // it runs, and the forward does not
	came    map[device.Phase]*device.Tensor
}

// paired tells whether step i of the pipeline is a forward that goes on beside the backward after it. They must be of the turns after the
// first forwards: a backward of fewer forwards behind may need what the forward at its side sends. On the last stage it may be the backward of
// that forward.
func (t *Trainer) paired(i int) bool {
	l, stage := t.rank.Layout(), t.rank.PP().Index
	return t.Cluster.Overlap && stage < l.PP-1 && i >= parallel.Ahead(l.PP, l.VPP, stage) && !t.order[i].Backward && i+1 < len(t.order) && t.order[i+1].Backward
}

var errAbandoned = errors.New("train: abandoned beside a forward that failed")

// alternate runs a forward and a backward of another microbatch.
func (t *Trainer) alternate(f, b parallel.Step) {
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if p := recover(); p != nil && p != any(errAbandoned) {
				panic(p)
			}
		}()
		t.beside.yield = yield
		t.backward(b.Chunk, b.Micro)
	})
	defer stop()
	lane := t.enter(f.Chunk, f.Micro)
	t.beside = beside{next: next, came: map[device.Phase]*device.Tensor{}}
	t.complete(f, lane, b)
	t.forwardIn(f.Chunk, f.Micro, lane)
	for t.resume() {
	}
	t.beside = beside{}
}

// resume runs the backward to its next stop, and tells whether there is more of it.
func (t *Trainer) resume() bool {
	t.beside.running = true
	_, more := t.beside.next()
	t.beside.running = false
	return more
}

// meanwhile is where the two take turns. A recomputation is part of its backward.
func (t *Trainer) meanwhile() {
	b := &t.beside
	step, micro, phase := t.dev.Where()
	switch {
	case b.next == nil:
		return
	case b.running && phase == device.Bwd:
		if !b.yield(struct{}{}) {
			panic(errAbandoned)
		}
	case !b.running && phase == device.Fwd:
		t.resume()
	default:
		return
	}
	t.dev.At(step, micro, phase)
}

// receives is the order in which what a forward and a backward beside it are sent is waited for: a choice that changes no bit, since each
// has a place of its own. Neither is sent because of what the other does, so either may be the first.
var receives = parallel.NewCompletion("receives", "receives", true)

// complete posts both receives of a pair and waits for them, where both are sent something.
func (t *Trainer) complete(f parallel.Step, lane int, b parallel.Step) {
	forward := arrival{t.pieces[f.Chunk].lanes[lane], f.Micro, lane, device.Fwd}
	lane = t.pieces[b.Chunk].in[b.Micro]
	pair := [2]arrival{forward, {t.pieces[b.Chunk].lanes[lane], b.Micro, lane, device.Bwd}}
	if !t.within(pair[0].from()) || !t.within(pair[1].from()) {
		return
	}
	var wait [2]func() *device.Tensor
	for i, a := range pair {
		t.dev.At(t.step, a.micro, a.phase)
		from, shape := t.sender(a.from())
		wait[i] = t.rank.PP().Post(t.dev.Lane(a.lane).In("pipeline"), chunkLabels.At(a.Index), from, t.weights.Format(), shape...)
	}
	t.dev.At(t.step, f.Micro, device.Fwd)
	label := chunkLabels.At(forward.Index) + ".completion"
	for _, i := range receives.Of(t.dev.In("pipeline"), label, len(pair), nil) {
		t.dev.At(t.step, pair[i].micro, pair[i].phase)
		t.beside.came[pair[i].phase] = wait[i]()
	}
}

// arrival is what a piece is sent.
type arrival struct {
	*model.Model
	micro, lane int
	phase       device.Phase
}

// from is the piece that sends it.
func (a arrival) from() int {
	if a.phase == device.Bwd {
		return a.Index + 1
	}
	return a.Index - 1
}
