package train

import (
	"strconv"

	"firstbit/data"
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/model"
	"firstbit/optim"
	"firstbit/parallel"
	"firstbit/reduce"
	"firstbit/rng"
)

// Trainer is a run under way on one device.
type Trainer struct {
	Config
	Corpus *data.Corpus
	Model  *model.Model
	Optim  optim.Optimizer

	// StateAt says before which steps every tensor is shown as a state record; nil: none.
	StateAt func(step int) bool
	// Digest makes every step end with a fingerprint of the whole state.
	Digest bool

	canonical       bool
	dev             *device.Device
	dp              parallel.Member
	consumed        int64 // samples of all ranks, before this step
	sampler         *data.Sampler
	tokens, targets *device.Tensor
	step            int
	lm, aux, z      []*device.Tensor   // of the step, one element per microbatch or layer
	mtp             [][]*device.Tensor // per depth, of every microbatch
	buf             []byte
}

// New builds a run of one rank at its beginning, weights drawn, on the device.
func New(c Config, dev *device.Device) (*Trainer, error) {
	corpus, err := c.Corpus()
	if err != nil {
		return nil, err
	}
	return NewRank(c, corpus, dev, parallel.NewWorld(parallel.Layout{DP: 1}, 1).Rank(0), false)
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
	sampler, err := data.NewSampler(corpus, c.Seq, c.Seed)
	if err != nil {
		return nil, err
	}
	format, err := c.Format()
	if err != nil {
		return nil, err
	}
	m, err := model.New(c.Model, format)
	if err != nil {
		return nil, err
	}
	t := &Trainer{Config: c, Corpus: corpus, Model: m, dev: dev, dp: rank.DP(), sampler: sampler, canonical: canonical}
	switch {
	case canonical:
		t.Optim = optim.NewCanonical(c.Optim, m.Params(), t.dp, c.Cluster.Bucket)
	case t.dp.Size() == 1:
		t.Optim = optim.New(c.Optim, m.Params())
	default:
		t.Optim = optim.NewDistributed(c.Optim, m.Params(), t.dp, c.Cluster.Bucket)
	}
	t.tokens = device.NewTensor(lowp.INT32, c.Batch, c.Seq)
	t.targets = device.NewTensor(lowp.INT32, c.Batch, c.Seq)
	t.mtp = make([][]*device.Tensor, len(m.MTP))
	dev.At(0, 0, device.Init)
	m.Init(dev, func(name string) *rng.Stream { return rng.New(c.Seed, name) })
	return t, t.load()
}

// Step is one iteration: microbatches forward and backward, then the update.
func (t *Trainer) Step() Result {
	t.step++
	t.records()
	for _, p := range t.Model.Params() {
		p.ZeroGrad()
	}
	t.lm, t.aux, t.z = t.lm[:0], t.aux[:0], t.z[:0]
	for k := range t.mtp {
		t.mtp[k] = t.mtp[k][:0]
	}
	for _, micro := range t.completion() {
		t.microbatch(int(micro))
	}
	t.dev.At(t.step, 0, device.Opt)
	norm := t.Optim.Step(t.dev, t.step, t.Config.Optim.Rate(t.step, t.Steps))
	for _, r := range t.Model.Routers() {
		if r.BiasRate > 0 && !r.Shared {
			at := t.dev.In(r.Scope)
			t.sumCounts(at, r.Tokens)
			r.UpdateBias(at)
		}
	}
	t.consumed += int64(t.Batch * t.Micro * t.dp.Size())
	return t.metrics(norm)
}

// completionKernel is the order in which microbatches complete: gradients, and losses as they are reported, add up
// in it. It is a choice as in pipelines that overlap.
var completionKernel = &device.Kernel{Name: "completion", Fixed: reduce.MustPlan("micro:seq/fp32"), Run: runCompletion}

// completion lists the microbatches of a step as they complete.
func (t *Trainer) completion() []int32 {
	if t.Micro == 1 {
		return onlyOne
	}
	t.dev.At(t.step, 0, device.Fwd)
	c := t.dev.In("grads").Open("accumulate", completionKernel)
	c.ReadScalar("microbatches", float64(t.Micro))
	order := c.Write("order", lowp.INT32, t.Micro)
	c.Do()
	return order.I32()
}

var onlyOne = []int32{0}

func runCompletion(c *device.Call) {
	order := c.Out[0].I32()
	for i, micro := range c.Order("micro", len(order)).Tree(len(order)).Leaves() {
		order[i] = int32(micro)
	}
}

func (t *Trainer) microbatch(micro int) {
	dev := t.dev
	dev.At(t.step, micro, device.Fwd)
	t.batch(micro)
	losses := t.Model.Forward(dev, t.tokens, t.targets)
	for _, r := range t.Model.Routers() {
		if r.BiasRate > 0 {
			r.CountTokens(dev.In(r.Scope))
		}
	}
	t.keep(losses)
	dev.At(t.step, micro, device.Bwd)
	t.Model.Backward(dev, 1/float64(t.Tokens()), 1/float64(t.Microbatches()))
}

// Microbatches is the number of microbatches of a step, on all ranks together.
func (t *Trainer) Microbatches() int { return t.Micro * t.dp.Size() }

// Tokens is the number of tokens of a step, on all ranks together.
func (t *Trainer) Tokens() int { return t.Batch * t.Microbatches() * t.Seq }

// sumCounts adds a router's counts over the ranks, in place.
func (t *Trainer) sumCounts(dev *device.Device, counts *device.Tensor) {
	if t.dp.Size() > 1 {
		t.dp.SumCounts(dev, "tokens.sum", counts)
	}
}

// sum adds a number of the rank's own over the ranks.
func (t *Trainer) sum(dev *device.Device, label string, x *device.Tensor) *device.Tensor {
	if t.canonical || t.dp.Size() == 1 { // canonical ones are of all ranks already
		return x
	}
	return t.dp.AllReduce(dev, label+".sum", x)
}

var (
	batchKernel = &device.Kernel{Name: "sampler"}
	keepKernel  = &device.Kernel{Name: "keep"}
	valueKernel = &device.Kernel{Name: "value"}
)

// batch deals this rank its samples: those of a step lie rank after rank, microbatch after microbatch.
func (t *Trainer) batch(micro int) {
	t.sampler.Consumed = t.consumed + int64((t.dp.Index*t.Micro+micro)*t.Batch)
	c := t.dev.OpenKind(device.Batch, "batch", batchKernel)
	c.ReadScalar("consumed", float64(t.sampler.Consumed))
	c.Update("tokens", t.tokens)
	c.Update("targets", t.targets)
	if c.Body == nil {
		c.Body = func(*device.Call) { t.sampler.Next(t.tokens.I32(), t.targets.I32()) }
	}
	c.Do()
}

// keep collects the microbatch's losses; of several, copies, since the next microbatch
// writes their tensors again.
func (t *Trainer) keep(l model.Losses) {
	if t.Micro == 1 {
		t.lm, t.aux, t.z = append(t.lm, l.LM), append(t.aux, l.Aux...), append(t.z, l.Z...)
		for k, loss := range l.MTP {
			t.mtp[k] = append(t.mtp[k], loss)
		}
		return
	}
	t.lm = append(t.lm, t.copyOf("losses.lm", l.LM))
	for k, loss := range l.MTP {
		t.mtp[k] = append(t.mtp[k], t.copyOf("losses.mtp."+strconv.Itoa(k), loss))
	}
	for i := range l.Aux {
		t.aux = append(t.aux, t.copyOf("losses.aux."+strconv.Itoa(i), l.Aux[i]))
		t.z = append(t.z, t.copyOf("losses.z."+strconv.Itoa(i), l.Z[i]))
	}
}

func (t *Trainer) copyOf(label string, x *device.Tensor) *device.Tensor {
	y := device.NewTensor(x.Format, x.Shape()...)
	c := t.dev.Open(label, keepKernel)
	c.Read("x", x)
	c.Update("y", y)
	c.Body = func(*device.Call) { y.CopyFrom(x) }
	c.Do()
	return y
}

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
}

// metrics makes the step's numbers and shows each as a metric record: the loss, its parts as they
// enter it, and the norm of the gradients.
func (t *Trainer) metrics(norm *device.Tensor) Result {
	dev, f := t.dev.In("metrics"), norm.Format
	if t.canonical {
		t.sumLosses(dev)
	}
	tokens := 1 / float64(t.Tokens())
	var names []string
	var parts []*device.Tensor
	add := func(name string, of []*device.Tensor, scale float64) {
		if len(of) > 0 {
			names, parts = append(names, name), append(parts, t.sum(dev, name, model.Reduce(dev, name, of, scale, f)))
		}
	}
	add("lm_loss", t.lm, tokens)
	add("load_balancing_loss", t.aux, 1/float64(t.Microbatches()))
	add("z_loss", t.z, 1/float64(t.Microbatches()))
	var depths []*device.Tensor
	for k, of := range t.mtp {
		depths = append(depths, model.Reduce(dev, "mtp_loss."+strconv.Itoa(k), of, t.Model.MTPScale(k, tokens), f))
	}
	add("mtp_loss", depths, 1)
	r := Result{Step: t.step, Metrics: []Metric{t.metric("loss", model.Reduce(dev, "loss", parts, 1, f))}}
	for i, p := range parts {
		r.Metrics = append(r.Metrics, t.metric(names[i], p))
	}
	r.Metrics = append(r.Metrics, t.metric("grad_norm", norm))
	if t.Digest {
		r.State = t.stateDigest()
	}
	return r
}

func (t *Trainer) metric(name string, x *device.Tensor) Metric {
	c := t.dev.OpenKind(device.Metric, name, valueKernel)
	c.Read("value", x)
	c.Do()
	return Metric{Name: name, Value: x.Value(0), Bits: x.Bits(0)}
}
