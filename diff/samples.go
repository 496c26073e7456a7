package diff

import (
	"fmt"
	"math"

	"firstbit/parallel"
	"firstbit/trace"
)

// batching is how a run cuts the samples of a step.
type batching struct{ dp, micro, batch, seq int }

// samples are those of a microbatch and the number of microbatches: the same in two runs, a microbatch of one number has the same samples.
func (c batching) samples() [3]int { return [3]int{c.dp * c.micro, c.batch, c.seq} }

// oneCut tells whether two runs of one layout have the same samples in their microbatches, as far as they say.
func oneCut(a, b *trace.Trace) bool {
	x, errA := batchingOf(a)
	y, errB := batchingOf(b)
	return errA != nil || errB != nil || x == y
}

func batchingOf(t *trace.Trace) (c batching, err error) {
	l, err := parallel.ParseLayout(t.Run.Layout)
	if err != nil {
		return c, fmt.Errorf("trace %s: %w", t.Dir, err)
	}
	config, _ := t.Raw["config"].(map[string]any)
	number := func(name string) int {
		n, _ := config[name].(float64)
		if n < 1 || n > math.MaxInt32 {
			return 0
		}
		return int(n) // fits: it is far below 2⁶³
	}
	c = batching{l.DP, number("micro"), number("batch"), number("seq")}
	if c.micro < 1 {
		return c, NotComparable{fmt.Sprintf("trace %s: its run.json does not say how samples are cut into microbatches", t.Dir)}
	}
	return c, nil
}
