package train

import (
	"fmt"
	"math/bits"
	"strings"

	"firstbit/device"
	"firstbit/model"
	"firstbit/parallel"
)

// CheckCanonical says why a run cannot have bits that do not depend on its layout; nil: it has.
//
// Microbatches and sequences are powers of two because shares of a mean are then exact, and a microbatch a whole subtree.
func (c Config) CheckCanonical(l parallel.Layout) error {
	l = l.Full()
	bad := func(field, value, must, why string) error {
		return fmt.Errorf("%s: %s: must be %s with recipe canonical: %s", field, value, must, why)
	}
	number := func(n int) string { return fmt.Sprint(n) }
	share := l.TP * l.CP
	switch {
	case c.Precision == "fp64":
		return bad("precision", c.Precision, "one of up to 32 bits", "sums of squares are exact in float64 only for fp32")
	case !powerOfTwo(share) || share > device.Segments:
		return bad("layout tp·cp", number(share), fmt.Sprintf("a power of two up to %d", device.Segments), "a sequence is added in so many parts")
	case share%(l.EP*l.ETP) != 0 && l.EP*l.ETP%share != 0:
		return bad("layout ep·etp", number(l.EP*l.ETP), fmt.Sprintf("a divisor or a multiple of tp·cp (%d)", share), "experts must see whole microbatches, or equal parts of one")
	case !powerOfTwo(c.Batch):
		return bad("batch", number(c.Batch), "a power of two", "the sequences of a microbatch must be a whole subtree, and a mean over them must divide exactly")
	case l.CP > 1 && c.Batch > 1:
		return bad("batch", number(c.Batch), "1 with cp", "tokens are added sequence after sequence, and a rank has a part of each")
	case !powerOfTwo(c.Seq):
		return bad("seq", number(c.Seq), "a power of two", "a mean over tokens must divide exactly")
	case share > 1 && c.Seq < device.Segments:
		return bad("seq", number(c.Seq), fmt.Sprintf("at least %d with tp or cp", device.Segments), "a sequence is added in so many parts")
	case c.normaliser() == model.ByMicrobatch:
		return bad("calculate_per_token_loss", "false", "true where documents count", "the mean over the labels of a microbatch is not the sum of its parts' means")
	case c.partial():
		return bad("epoch_end", c.EpochEnd, "continue", "which samples of an epoch are left out depends on the layout")
	case c.Model.Dropout > 0 && !c.indexed(true):
		return bad("streams", c.Streams, "indexed", "for model.dropout a rank would draw from a stream of its own")
	}
	if err := c.checkBlocks(l); err != nil {
		return err
	}
	if !strings.ContainsRune(c.Model.Pattern, 'E') {
		return nil
	}
	switch m := c.Model.MoE; {
	case m.Jitter > 0 && !c.indexed(true):
		return bad("streams", c.Streams, "indexed", "for model.moe.jitter a rank would draw from a stream of its own")
	case tooSmall(m.AuxCoeff):
		return bad("model.moe.aux_coeff", fmt.Sprint(m.AuxCoeff), fmt.Sprintf("0 or at least %g", leastCoeff), "a mean that is subnormal does not divide exactly")
	case tooSmall(m.ZCoeff):
		return bad("model.moe.z_coeff", fmt.Sprint(m.ZCoeff), fmt.Sprintf("0 or at least %g", leastCoeff), "a mean that is subnormal does not divide exactly")
	case m.Aux != "sequence":
		return bad("model.moe.aux", fmt.Sprintf("%q", m.Aux), "sequence", "the loss of a batch is not the sum of its parts' losses")
	}
	return nil
}

// checkBlocks says why a layout would cut a block that has one scale: no rank has all of it then, or it holds tokens of two sequences.
func (c Config) checkBlocks(l parallel.Layout) error {
	scheme, ok := schemes[c.Precision]
	if !ok {
		return nil
	}
	size := scheme.Block()
	switch run := c.Batch * c.Seq / (l.TP * l.CP); {
	case c.Precision == "nvfp4" && !c.indexed(true):
		return fmt.Errorf("streams: %s: must be indexed with recipe canonical: for stochastic rounding a rank would draw from a stream of its own", c.Streams)
	case size == 0:
		return nil
	case c.Seq%size != 0:
		return fmt.Errorf("seq: %d: must be a multiple of %d with recipe canonical and precision %s: a block of tokens must not reach into another sequence", c.Seq, size, c.Precision)
	case run%size != 0 || c.Seq/l.CP%size != 0:
		return fmt.Errorf("layout tp·cp: %d: leaves %d tokens of a microbatch to a rank: must be a multiple of %d with recipe canonical and precision %s: a shard off a block's edge", l.TP*l.CP, min(run, c.Seq/l.CP), size, c.Precision)
	}
	if axis, field, part := c.Model.Cuts(l, size); axis != "" {
		return fmt.Errorf("layout %s: %d: leaves %d columns of %s to a rank: must be a multiple of %d with recipe canonical and precision %s: a shard off a block's edge", axis, l.Extent(axis), part, field, size, c.Precision)
	}
	return nil
}

// leastCoeff keeps losses and their gradients far from the subnormal numbers of fp32.
const leastCoeff = 1e-12

func tooSmall(coeff float64) bool { return coeff > 0 && coeff < leastCoeff }

func powerOfTwo(n int) bool { return n > 0 && bits.OnesCount(uint(n)) == 1 }
