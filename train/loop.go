package train

import (
	"strconv"

	"firstbit/data"
	"firstbit/device"
	"firstbit/model"
	"firstbit/nn"
	"firstbit/optim"
	"firstbit/parallel"
)

// Trainer is a run under way on one device.
type Trainer struct {
	Config
	Corpus *data.Corpus
	Model  *model.Model // of the first piece
	Optim  *optim.AdamW

	dev       *device.Device
	rank      parallel.Rank
	canonical bool
	weights   *model.Weights
	feed
	pipe
	losses   losses
	schedule *optim.Schedule
	labels   labels
	counters
	shown
}

// Corpus opens the data of a configuration.
func (c Config) Corpus() (*data.Corpus, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return data.Open(c.Data, c.Model.Vocab)
}

// NewRank builds one rank's part of a run. A canonical one has bits that do not depend on the number of ranks.
func NewRank(c Config, corpus *data.Corpus, dev *device.Device, rank parallel.Rank, canonical bool) (*Trainer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	sampler, err := data.NewSampler(corpus, c.Seq, c.Seed, c.Documents)
	if err == nil && c.Samples > 0 {
		err = sampler.Keep(c.Samples)
	}
	if err != nil {
		return nil, err
	}
	format, err := c.Format()
	if err != nil {
		return nil, err
	}
	w, err := model.NewWeights(c.Model, format, rank, canonical)
	if err != nil {
		return nil, err
	}
	w.Normaliser = c.normaliser()
	if c.indexed(canonical) {
		w.Index(c.Seed)
	}
	t := &Trainer{Config: c, Corpus: corpus, dev: dev, rank: rank, canonical: canonical, weights: w, feed: feed{sampler: sampler, batches: map[laneOfPiece]*batch{}, window: c.Micro}}
	if err := t.checkEpoch(); err != nil {
		return nil, err
	}
	t.recipe(canonical)
	if c.Cluster.Overlap {
		w.Overlap(t.meanwhile)
	}
	for i := range w.Pieces() {
		t.pieces = append(t.pieces, &piece{lanes: []*model.Model{w.Piece(i)}, in: map[int]int{}})
	}
	if err := t.checkHigh(); err != nil {
		return nil, err
	}
	t.Model = t.pieces[0].lanes[0]
	for _, p := range w.Params() {
		switch o := p.Accumulator.(type) {
		case *nn.InOrder:
			o.Steady = c.Micro == 1 || !c.partial() // every step has as many microbatches
		case *nn.ByUse:
			share := rank.Shares(p, canonical)
			o.Micros, o.First = c.Micro, share.Step.Index*share.Sources*c.Micro
		}
	}
	t.schedule = optim.NewSchedule(c.Optim, c.Steps)
	t.Optim = optim.New(c.Optim, w.Params(), rank, c.Cluster.Bucket, canonical)
	if c.Precision == scaledPrecision {
		t.Optim.Scale = optim.NewLossScale(c.Optim.LossScale)
	}
	if c.Cluster.Overlap {
		t.Optim.Early(dev)
	}
	dev.At(0, 0, device.Init)
	w.Init(dev, t.seeded)
	if err := t.load(); err != nil {
		return t, err
	}
	t.quantise(false)
	return t, nil
}

// of is the place for which a stream is a rank's own: its tensor- and pipeline-parallel ranks, or experts, draw other numbers.
func (t *Trainer) of(stream string) string {
	at, name := t.dev.Coord(), ""
	add := func(axis string, i int) {
		if i > 0 {
			name += "." + axis + strconv.Itoa(i)
		}
	}
	switch stream {
	case "dropout.tp":
		add("tp", at.TP)
	case "sr": // experts have rows of their own number to round on every data-parallel rank
		add("tp", at.TP)
		add("dp", at.DP)
	case "jitter.ep":
		add("ep", at.EP)
		add("etp", t.rank.ETP().Index)
	default:
		return ""
	}
	add("cp", at.CP)
	add("pp", at.PP)
	return name
}

// Routers lists the routers of the rank, in order.
func (t *Trainer) Routers() (routers []model.Routed) {
	for _, p := range t.pieces {
		routers = append(routers, p.lanes[0].Routers()...)
	}
	return routers
}

// Step is one iteration: microbatches forward and backward, then the update.
func (t *Trainer) Step() Result {
	t.step++
	t.records()
	for _, p := range t.weights.Params() {
		p.ZeroGrad()
	}
	if t.window = t.windowAt(t.consumed); t.window == 0 { // only a restore can bring such a position
		t.consumed = t.after(t.consumed, 0)
		t.window = t.windowAt(t.consumed)
	}
	t.Optim.Begin(t.window)
	t.losses.order = t.losses.order[:0]
	t.scaleLoss()
	t.pipeline()
	t.dev.At(t.step, 0, device.Opt)
	t.joinLabels()
	norm, taken := t.Optim.Step(t.dev, t.updates+1, t.schedule.Rate())
	if taken {
		t.updates++
		t.schedule.Advance(t.dev)
	}
	for _, r := range t.Routers() { // after a step that is skipped too, as in Megatron
		if r.BiasRate > 0 && !r.Shared {
			at := t.dev.In(r.Scope)
			t.rank.Stage().SumCounts(at, "tokens.sum", r.Tokens)
			r.UpdateBias(at)
		}
	}
	t.updateScales()
	t.quantise(true)
	t.consumed = t.after(t.consumed, t.window)
	r := t.metrics(norm)
	r.NonFinite, r.Skipped = t.nonFinite(), !taken
	return r
}

// scaleLoss begins a step with the gradient of its loss.
func (t *Trainer) scaleLoss() {
	if s := t.Optim.Scale; s != nil {
		t.dev.At(t.step, 0, device.Fwd)
		t.losses.grad = s.Gradient(t.dev)
	}
}

// Microbatches is the number of microbatches of the step, on all data-parallel ranks together.
func (t *Trainer) Microbatches() int { return t.window * t.rank.Layout().DP }

// Tokens is the number of tokens of the step, on all ranks together.
func (t *Trainer) Tokens() int { return t.Batch * t.Microbatches() * t.Seq }

// Metric is a number a step reports.
type Metric struct {
	Name  string
	Value float64
	Bits  string // hex, at the width it was computed in
}

// Result is what a step reports.
type Result struct {
	Step    int
	Metrics []Metric
	State   string // fingerprint of the whole state after the step; empty unless asked for

	NonFinite string // the first of the rank's states that holds a NaN or an infinity; empty: none does
	Skipped   bool   // a gradient was NaN or infinite, and fp16 skips such a step
}
