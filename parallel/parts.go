package parallel

import (
	"slices"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/reduce"
)

// part is a run of a message's elements that are added in one order, and where their sums go.
type part struct {
	kernel.Span
	to   int // the member whose output they are
	from int // where in it they begin
	fold kernel.Fold
}

// message is all that the parts of a collective depend on, but for arrival.
type message struct {
	outer    int // blocks of which each member has a shard; 0: the first has all
	elements int
	subtrees int // sums that all members bring together
	plan     string
}

// maxMessages bounds what a group keeps; a run has a few, and one that has more makes them again.
const maxMessages = 256

// partsOf cuts the message of a collective that adds. At thousands of ranks a ring has as many orders, so a group keeps the parts of
// every message. Only who does the work of a meeting comes here, and a group has one at a time.
func (g *Group) partsOf(lead *device.Call, outer int) []part {
	m, runs := message{outer, brought(lead).Len(), g.Size(), lead.Plan.String()}, []reduce.Run(nil)
	if r := subtreesOf(lead, g.Size()); r != nil {
		m.elements, m.subtrees, runs = m.elements/r.most, len(r.all), r.all
	}
	if parts, ok := g.messages[m]; ok {
		return parts
	}
	parts := g.cut(m, lead.Plan)
	g.fold(parts, outer > 0, lead, m.subtrees, runs)
	if !lead.Plan.Order("ranks").Arrives() {
		if g.messages == nil || len(g.messages) == maxMessages {
			g.messages = map[message][]part{}
		}
		g.messages[m] = parts
	}
	return parts
}

// cut is what an all-reduce adds for its first member, whose sums the others copy, or a reduce-scatter for each.
func (g *Group) cut(m message, plan reduce.Plan) []part {
	cut := kernel.Partition{Elements: m.elements, Ranks: g.Size(), Channels: plan.Int("channels")}
	if m.outer > 0 {
		return cutShards(cut, m.outer)
	}
	var spans []kernel.Span
	switch plan.Order("ranks").Kind() {
	case "ring":
		spans = cut.Ring()
	case "nccltree":
		spans = cut.Tree()
	case "symmetric":
		spans = cut.Owners()
	case "arrival": // a chunk for every channel
		for channel := range cut.Channels {
			if lo, hi := kernel.Cut(m.elements, cut.Channels, channel, 1); lo < hi {
				spans = append(spans, kernel.Span{Lo: lo, Hi: hi, Channel: channel})
			}
		}
	default: // one order for every element
		spans = []kernel.Span{{Hi: m.elements}}
	}
	parts := make([]part, len(spans))
	for i, p := range spans {
		parts[i] = part{Span: p, from: p.Lo}
	}
	return parts
}

// cutShards leaves every shard to its owner. Channels cut each shard, which lies in so many blocks.
func cutShards(cut kernel.Partition, outer int) []part {
	var parts []part
	block := cut.Elements / outer
	for owner := range cut.Ranks {
		lo, hi := Shard(block, cut.Ranks, owner)
		n := hi - lo
		for channel := range cut.Channels {
			for a, b := kernel.Cut(outer*n, cut.Channels, channel, 1); a < b; {
				at := a/n*block + lo + a%n
				end := min(b, (a/n+1)*n)
				parts = append(parts, part{Span: kernel.Span{Lo: at, Hi: at + end - a, Channel: channel, Part: owner}, to: owner, from: a})
				a = end
			}
		}
	}
	if outer > 1 { // as they lie, so that neighbours can be added together
		slices.SortFunc(parts, func(a, b part) int { return a.Lo - b.Lo })
	}
	return parts
}

// fold finds the order over what the ranks bring of every part: n sums, of these runs of microbatches, or, nil, one a rank. Parts of one channel, or of several, may share it.
func (g *Group) fold(parts []part, scatter bool, lead *device.Call, n int, runs []reduce.Run) {
	channels := lead.Plan.Int("channels")
	rings := map[int]*ring{}
	share := func(part) (channel, which int) { return 0, 0 }
	switch lead.Plan.Order("ranks").Kind() {
	case "ring":
		seed := uint64(lead.Plan.Int("ring"))
		share = func(p part) (int, int) {
			if seed == 1 { // 0, 1, 2, …, for every channel
				return 0, p.Part
			}
			r := rings[p.Channel]
			if r == nil { // another allocation: every channel has a ring of its own
				r = newRing(seed<<16+uint64(p.Channel), n)
				rings[p.Channel] = r
			}
			if scatter { // the ring ends with the owner, wherever that stands
				return p.Channel, r.index[p.to]
			}
			return p.Channel, p.Part
		}
	case "arrival": // each chunk is added as it comes, whoever of the ranks sends it next
		share = func(p part) (int, int) { return 0, p.Channel }
	case "nccltree":
		share = func(p part) (int, int) { return 0, kernel.TreeOf(p.Channel, channels) }
	case "symmetric":
		share = func(p part) (int, int) { return 0, p.Part }
	}
	type sharers struct{ channel, which int }
	folds := map[sharers]kernel.Fold{}
	for i := range parts {
		channel, which := share(parts[i])
		f, ok := folds[sharers{channel, which}]
		if !ok {
			at := reduce.Context{Part: which, Node: g.perNode}
			if r := rings[channel]; r != nil {
				at.Ring = r.ranks
			}
			if f = switched(lead, lead.FoldAt("ranks", n, at)); runs != nil && lead.Plan.Order("ranks").Kind() == "pairwise" {
				f = lead.FoldRuns("ranks", runs)
			}
			folds[sharers{channel, which}] = f
		}
		parts[i].fold = f
	}
}

// switched is a sum in a switch of the network, an order of kind perm, which adds by tables that it shares with other
// communicators: each one more deals them anew.
func switched(c *device.Call, f kernel.Fold) kernel.Fold {
	o, communicators := c.Plan.Order("ranks"), c.Plan.Int("communicators")
	if o.Kind() != "perm" || communicators == 1 {
		return f
	}
	alone := o.Tree(f.N).Leaves()
	order := reduce.Permutation(uint64(communicators), f.N)
	for i, at := range order {
		order[i] = alone[at]
	}
	f.Program = reduce.Given(order).Program(f.N)
	return f
}

// ring lists the ranks as they stand in a ring, and where each stands.
type ring struct{ ranks, index []int }

func newRing(seed uint64, n int) *ring {
	r := &ring{ranks: reduce.Permutation(seed, n), index: make([]int, n)}
	for at, rank := range r.ranks {
		r.index[rank] = at
	}
	return r
}
