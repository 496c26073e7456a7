package tune

import (
	"fmt"
	"math"

	"firstbit/device"
	"firstbit/reduce"
)

// algorithm is a way to add over ranks, with the figures by which the tuner compares: microseconds to start and for
// a hop inside a node and between two, and bytes a microsecond that a channel carries.
type algorithm struct {
	order     string
	start     float64
	hop, far  float64
	bandwidth float64
	hops      func(ranks, nodes int) (near, far float64) // on the longest way
	least     int                                        // nodes from which it exists
}

// The figures are a model in the manner of NCCL's tables, not measurements: they have the rings win inside a node and for
// large messages, the switches of the network between few nodes, the trees between many.
var algorithms = []algorithm{
	{order: "ring", start: 6, hop: 0.6, far: 3, bandwidth: 20000, least: 1,
		hops: func(ranks, nodes int) (float64, float64) {
			return float64(2 * (ranks - nodes)), float64(2 * (nodes - 1))
		}},
	{order: "nccltree", start: 12, hop: 0.6, far: 4, bandwidth: 16000, least: 1,
		hops: func(ranks, nodes int) (float64, float64) {
			return float64(2 * (ranks/nodes - 1)), 2 * math.Ceil(math.Log2(float64(nodes)))
		}},
	{order: "arrival", start: 9, hop: 0.6, far: 2, bandwidth: 18000, least: 2, // in-switch: in whatever order packets come
		hops: func(_, nodes int) (float64, float64) { return 2, float64(nodes) }},
}

const (
	mostChannels = 8
	channelBytes = 64 << 10 // a smaller message gets fewer channels
)

// Choose is the algorithm and the number of channels for a message: the least of latency + bytes/bandwidth.
//
// A reduce-scatter has no tree.
//
// Source: docs/facts.md, Collectives.
func Choose(kernel string, bytes, ranks, nodes int) (order string, channels int) {
	channels = max(1, min(mostChannels, bytes/channelBytes))
	best := math.Inf(1)
	for _, a := range algorithms {
		if nodes < a.least || a.order == "nccltree" && kernel == "reduce_scatter" {
			continue
		}
		near, far := a.hops(ranks, nodes)
		t := a.start + float64(near*a.hop) + float64(far*a.far) + float64(bytes)/float64(a.bandwidth*float64(channels))
		if t < best {
			best, order = t, a.order
		}
	}
	return order, channels
}

// tuned sets the order and channels of a collective whose plan leaves them to the tuner.
func tuned(c *device.Call) error {
	if !c.Plan.Has("tuned") || c.Plan.Choice("tuned") != "true" {
		return nil
	}
	n := 0
	for _, x := range c.In {
		n += x.Len()
	}
	order, channels := Choose(c.Kernel.Name, n*c.Output("y").Format.Bits()/8, int(c.Scalar("ranks")), int(c.Scalar("nodes")))
	plan, err := reduce.ParsePlan(fmt.Sprintf("ranks:%s/%s; channels=%d", order, c.Plan.Reduction("ranks").Acc, channels))
	if err == nil {
		c.Plan, err = c.Plan.With(plan)
	}
	return err
}
