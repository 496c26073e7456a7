package train

import (
	"fmt"
	"math/bits"
	"strings"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/libm"
	"firstbit/optim"
	"firstbit/reduce"
)

// CheckCanonical says why a run of so many data-parallel ranks cannot have bits that do not depend on their number; nil: it has.
//
// Batches and sequences are powers of two because shares of a mean are then exact, and shards of a batch whole subtrees.
func (c Config) CheckCanonical(dp int) error {
	bad := func(field, value, must, why string) error {
		return fmt.Errorf("%s: %s: must be %s with recipe canonical: %s", field, value, must, why)
	}
	number := func(n int) string { return fmt.Sprint(n) }
	switch {
	case !powerOfTwo(dp) || dp > optim.CanonicalRanks:
		return bad("layout dp", number(dp), "1, 2, 4 or 8", "a rank's part of a bucket must be a whole subtree")
	case !powerOfTwo(c.Micro):
		return bad("micro", number(c.Micro), "a power of two", "the microbatches of a rank must be a whole subtree")
	case !powerOfTwo(c.Batch):
		return bad("batch", number(c.Batch), "a power of two", "the sequences of a rank must be a whole subtree")
	case !powerOfTwo(c.Seq):
		return bad("seq", number(c.Seq), "a power of two", "a mean over tokens must divide exactly")
	case c.Model.Dropout > 0:
		return bad("model.dropout", fmt.Sprint(c.Model.Dropout), "0", "a rank draws from a stream of its own")
	}
	if !strings.ContainsRune(c.Model.Pattern, 'E') {
		return nil
	}
	switch m := c.Model.MoE; {
	case m.Jitter > 0:
		return bad("model.moe.jitter", fmt.Sprint(m.Jitter), "0", "a rank draws from a stream of its own")
	case tooSmall(m.AuxCoeff):
		return bad("model.moe.aux_coeff", fmt.Sprint(m.AuxCoeff), fmt.Sprintf("0 or at least %g", leastCoeff), "a mean that is subnormal does not divide exactly")
	case tooSmall(m.ZCoeff):
		return bad("model.moe.z_coeff", fmt.Sprint(m.ZCoeff), fmt.Sprintf("0 or at least %g", leastCoeff), "a mean that is subnormal does not divide exactly")
	case m.Aux != "sequence":
		return bad("model.moe.aux", fmt.Sprintf("%q", m.Aux), "sequence", "the loss of a batch is not the sum of its parts' losses")
	}
	return nil
}

// leastCoeff keeps losses and their gradients far from the subnormal numbers of fp32.
const leastCoeff = 1e-12

func tooSmall(coeff float64) bool { return coeff > 0 && coeff < leastCoeff }

func powerOfTwo(n int) bool { return n > 0 && bits.OnesCount(uint(n)) == 1 }

// meetLosses joins the losses of microbatches as their gradients are joined.
var meetLosses = &device.Kernel{Name: "losses", Fixed: reduce.MustPlan("micro:pairwise/fp32"),
	Run: device.Width(runMeetLosses[float32], runMeetLosses[float64])}

// sumLosses makes each loss that of all microbatches and ranks before layers and depths meet and weights enter: as with
// gradients, what is added over ranks is added by itself.
func (t *Trainer) sumLosses(dev *device.Device) {
	lists := append([]*[]*device.Tensor{&t.lm, &t.aux, &t.z}, make([]*[]*device.Tensor, len(t.mtp))...)
	for k := range t.mtp {
		lists[3+k] = &t.mtp[k]
	}
	c := dev.Open("losses", meetLosses)
	n := 0
	for _, l := range lists {
		each := len(*l) / t.Micro
		for j := range each {
			for micro := range t.Micro {
				c.Read("loss", (*l)[micro*each+j])
			}
		}
		n += each
	}
	mine := c.Write("losses", c.In[0].Format, n)
	c.Do()
	all := t.dp.AllReduce(dev, "losses.sum", mine)
	n = 0
	for _, l := range lists {
		*l = (*l)[:len(*l)/t.Micro]
		for i := range *l {
			(*l)[i] = all.View(n, n+1)
			n++
		}
	}
}

func runMeetLosses[T libm.Float](c *device.Call) {
	sums := device.Data[T](c.Out[0].Tensor)
	micro := len(c.In) / len(sums)
	f := c.Fold("micro", micro)
	for i := range sums {
		sums[i] = kernel.Run(f, func(m int) T { return device.Data[T](c.In[i*micro+m].Tensor)[0] })
	}
}
