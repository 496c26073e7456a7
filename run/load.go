package run

import (
	"slices"

	"firstbit/device"
)

// Load is how many tokens chose each expert of a router in one step.
type Load struct {
	Step   int
	Layer  string // scope of the router
	Tokens []int
}

// Imbalance is the largest expert's tokens over the mean: 1 is even.
func (l Load) Imbalance() float64 {
	most, sum := 0, 0
	for _, n := range l.Tokens {
		most, sum = max(most, n), sum+n
	}
	return float64(most) * float64(len(l.Tokens)) / float64(sum)
}

// addLoad adds another rank's counts. Ranks of one stage have the same routers.
func (o *Outcome) addLoad(of []Load) {
	for i, l := range of {
		same := func(k Load) bool { return k.Step == l.Step && k.Layer == l.Layer }
		if i >= len(o.Load) || !same(o.Load[i]) { // it is there unless the first rank is of another stage
			i = slices.IndexFunc(o.Load, same)
		}
		if i < 0 {
			o.Load = append(o.Load, l)
			continue
		}
		for e, n := range l.Tokens {
			o.Load[i].Tokens[e] += n
		}
	}
}

// count adds up what every top-k of a forward chose, over the microbatches of a step.
func (o *Outcome) count(next device.Runner) device.Runner {
	return func(c *device.Call) {
		next(c)
		if c.Label != "topk" || c.Kernel.Name != "topk" || c.ID.Phase != device.Fwd {
			return
		}
		at := len(o.Load) - 1
		for at >= 0 && o.Load[at].Step == c.ID.Step && o.Load[at].Layer != c.Scope {
			at--
		}
		if at < 0 || o.Load[at].Step != c.ID.Step {
			at = len(o.Load)
			o.Load = append(o.Load, Load{Step: c.ID.Step, Layer: c.Scope, Tokens: make([]int, c.Input("scores").Cols())})
		}
		for _, e := range c.Output("index").I32() {
			o.Load[at].Tokens[e]++
		}
	}
}
