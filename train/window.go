package train

import "fmt"

// epochEnds are the values of Config.EpochEnd besides the empty one.
var epochEnds = []string{"continue", "partial", partialByMicro}

// partialByMicro is what trainers do that divide each loss by the microbatches that a step should have (ms-swift #10084).
const partialByMicro = "partial_by_micro"

// A step takes Batch·Micro samples on each data-parallel rank: its window. Where an epoch has fewer left it goes on with the next one, or, with
// epoch_end partial or partial_by_micro, has as many whole microbatches as there are for every rank; what is left then is not dealt.

// partial tells whether the last window of an epoch may be shorter.
func (c Config) partial() bool { return c.EpochEnd == "partial" || c.EpochEnd == partialByMicro }

// divisor is the number of microbatches, on all data-parallel ranks together, that a mean over those of the step is divided by.
func (t *Trainer) divisor() int {
	if t.EpochEnd == partialByMicro {
		return t.Micro * t.rank.Layout().DP
	}
	return t.Microbatches()
}

// windowAt is the number of microbatches of a rank in the step that begins after so many samples; 0: the epoch has no more.
func (t *Trainer) windowAt(consumed int64) int {
	if !t.partial() {
		return t.Micro
	}
	l, n := t.rank.Layout(), int64(t.sampler.Windows())
	left := (n - consumed%n) / int64(t.Batch*l.DP)
	w := int(min(left, int64(t.Micro)))
	if l.VPP > 1 { // microbatches go through its chunks pp at a time
		w -= w % l.PP
	}
	return w
}

// after is what has been consumed once a window of w microbatches has: all of the epoch where no other window is left of it.
func (t *Trainer) after(consumed int64, w int) int64 {
	consumed += int64(t.Batch * w * t.rank.Layout().DP)
	if n := int64(t.sampler.Windows()); t.windowAt(consumed) == 0 {
		consumed = (consumed + n - 1) / n * n
	}
	return consumed
}

// consumedBy is what has been consumed after so many steps of a run.
func (t *Trainer) consumedBy(steps int64) int64 {
	per := int64(t.Batch * t.Micro * t.rank.Layout().DP)
	if !t.partial() {
		return steps * per
	}
	n := int64(t.sampler.Windows())
	epoch := n / per // steps of one
	if t.windowAt(epoch*per) > 0 && epoch*per < n {
		epoch++
	}
	return steps/epoch*n + steps%epoch*per
}

// checkEpoch says why an epoch has no window.
func (t *Trainer) checkEpoch() error {
	if n := t.sampler.Windows(); t.windowAt(0) == 0 {
		l, per := t.rank.Layout(), 1
		if l.VPP > 1 {
			per = l.PP
		}
		return fmt.Errorf("epoch_end: %s: data %s has %d samples of %d tokens: must be at least %d, a microbatch for every rank", t.EpochEnd, t.Corpus.Name, n, t.Seq, t.Batch*l.DP*per)
	}
	return nil
}
