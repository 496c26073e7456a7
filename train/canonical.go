package train

import (
	"fmt"
	"math/bits"
	"strings"

	"firstbit/device"
	"firstbit/optim"
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
	case c.Micro != 1:
		return bad("micro", number(c.Micro), "1", "microbatches are added in a chain, which does not cut into ranks")
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
	case m.Aux != "sequence":
		return bad("model.moe.aux", fmt.Sprintf("%q", m.Aux), "sequence", "the loss of a batch is not the sum of its parts' losses")
	}
	return nil
}

func powerOfTwo(n int) bool { return n > 0 && bits.OnesCount(uint(n)) == 1 }

var gatherLosses = &device.Kernel{Name: "pack", Run: runGatherLosses}

// sumLosses makes the losses those of all ranks before layers and depths meet and weights enter: as with
// gradients, what is added over ranks is added by itself.
func (t *Trainer) sumLosses(dev *device.Device) {
	lists := [][]*device.Tensor{t.lm, t.aux, t.z}
	lists = append(lists, t.mtp...)
	c := dev.Open("losses", gatherLosses)
	n := 0
	for _, l := range lists {
		for _, x := range l {
			c.Read("loss", x)
			n++
		}
	}
	mine := c.Write("losses", c.In[0].Format, n)
	c.Do()
	all := t.dp.AllReduce(dev, "losses.sum", mine)
	n = 0
	for _, l := range lists {
		for i := range l {
			l[i] = all.View(n, n+1)
			n++
		}
	}
}

func runGatherLosses(c *device.Call) {
	for i := range c.In {
		c.Out[0].CopyAt(i, c.In[i].Tensor)
	}
}
