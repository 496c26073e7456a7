package train

import (
	"firstbit/data"
	"firstbit/device"
	"firstbit/lowp"
)

// feed is where a step's samples come from.
type feed struct {
	sampler *data.Sampler
	batches map[laneOfPiece]*batch
	window  int // microbatches of a rank in the step
}

var batchKernel = &device.Kernel{Name: "sampler", Scalars: device.Names("consumed"), Out: device.Names("tokens targets starts?")}

// batch is the samples of a microbatch under way.
type batch struct {
	tokens, targets *device.Tensor
	starts          *device.Tensor // of documents; nil: they are no boundaries
}

// laneOfPiece is where a microbatch is under way.
type laneOfPiece struct{ piece, lane int }

// batchOf is the batch of a microbatch that is under way there.
func (t *Trainer) batchOf(at laneOfPiece) *batch {
	b := t.batches[at]
	if b == nil {
		whole := func() *device.Tensor { return device.NewTensor(lowp.INT32, t.Batch, t.Seq) }
		b = &batch{tokens: whole(), targets: whole()}
		if t.Documents.ResetAttentionMask {
			b.starts = whole()
		}
		t.batches[at] = b
	}
	return b
}

// sample is the number, within the run, of a microbatch's first sample. Those of a step lie data rank after data rank, microbatch
// after microbatch.
func (t *Trainer) sample(micro int) int64 {
	return t.consumed + int64((t.rank.DP().Index*t.window+micro)*t.Batch)
}

// deal deals the ranks that share a microbatch its samples: the first draws them and gives them to the others.
//
// Source: Megatron's broadcast_data.
func (t *Trainer) deal(dev *device.Device, b *batch, micro int) {
	group := t.rank.Micro()
	if group.Index == 0 {
		t.draw(dev, b, micro)
	}
	group.Broadcast(dev, "batch.tokens", 0, b.tokens)
	group.Broadcast(dev, "batch.targets", 0, b.targets)
	if b.starts != nil {
		group.Broadcast(dev, "batch.starts", 0, b.starts)
	}
}

func (t *Trainer) draw(dev *device.Device, b *batch, micro int) {
	c := dev.OpenKind(device.Batch, "batch", batchKernel)
	c.ReadScalar("consumed", float64(t.sample(micro))) // exact below 2⁵³
	c.Update("tokens", b.tokens)
	c.Update("targets", b.targets)
	if b.starts != nil {
		c.Update("starts", b.starts)
	}
	if c.Body == nil {
		c.Body = func(c *device.Call) {
			t.sampler.Consumed = int64(c.Scalar("consumed")) // fits: it is a count of samples
			var starts []int32
			if x := c.Output("starts"); x != nil {
				starts = x.I32()
			}
			t.sampler.Next(c.Output("tokens").I32(), c.Output("targets").I32(), starts)
		}
	}
	c.Do()
}
