package kernel

// Partition is how NCCL cuts a message, in outline: over channels that work side by side, and each channel's part
// again by the algorithm. Parts are contiguous and as even as whole units allow.
type Partition struct {
	Elements int
	Ranks    int
	Channels int
	Unit     int // elements that are not parted, such as those of 16 bytes; 0: 1
}

// Span is where one piece of a message lies.
type Span struct {
	Lo, Hi  int // its elements; none is empty
	Channel int
	Part    int // the chunk of a ring, the tree of a double binary tree, the owner of a share
}

// Cut is part i of n elements cut into k: of u = ⌈n/unit⌉ units, those from ⌊u·i/k⌋ to ⌊u·(i+1)/k⌋. Two parts differ in
// length by at most one unit.
func Cut(n, k, i, unit int) (lo, hi int) {
	unit = max(unit, 1)
	u := (n + unit - 1) / unit
	return min(u*i/k*unit, n), min(u*(i+1)/k*unit, n)
}

// Ring cuts each channel's part into a chunk for every rank of the ring.
func (p Partition) Ring() []Span {
	spans := make([]Span, 0, min(p.Channels*p.Ranks, p.Elements))
	for channel := range p.Channels {
		lo, hi := p.channel(channel)
		for chunk := range p.Ranks {
			a, b := Cut(hi-lo, p.Ranks, chunk, p.Unit)
			spans = appendSpan(spans, Span{lo + a, lo + b, channel, chunk})
		}
	}
	return spans
}

// Tree leaves each channel's part whole: the first half of the channels works by the one tree, the others by the other.
func (p Partition) Tree() []Span {
	spans := make([]Span, 0, p.Channels)
	for channel := range p.Channels {
		lo, hi := p.channel(channel)
		spans = appendSpan(spans, Span{lo, hi, channel, TreeOf(channel, p.Channels)})
	}
	return spans
}

// Owners gives each rank a share, whatever the channels: what symmetric kernels do.
func (p Partition) Owners() []Span {
	p.Channels = 1
	return p.Ring()
}

// TreeOf is which of the two trees a channel works by; one channel alone by the first.
func TreeOf(channel, channels int) int { return 2 * channel / max(channels, 1) }

func (p Partition) channel(i int) (lo, hi int) { return Cut(p.Elements, p.Channels, i, p.Unit) }

func appendSpan(spans []Span, p Span) []Span {
	if p.Lo == p.Hi {
		return spans
	}
	return append(spans, p)
}
