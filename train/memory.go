package train

import (
	"fmt"
	"strings"

	"firstbit/lowp"
	"firstbit/parallel"
)

// What the estimate below cannot count, in bytes: measured of live heaps.
const (
	memoryBase  = 1 << 20 // of a run: its corpus and tables
	memoryRank  = 1 << 17 // of a rank
	memoryLayer = 1 << 16 // of a layer of a rank: Calls, names, views
)

// Memory estimates the bytes of tensors that a run keeps on all its ranks together. Weights, gradients and moments follow from the layout.
// Every Call keeps what it writes for the next step, so activations and their gradients are sums over Calls: coefficients of the
// extents were counted in the layers and agree with measured heaps to a third.
//
// Letters: those of ARCHITECTURE.md, extents of one rank.
func (c Config) Memory(l parallel.Layout) int64 {
	l = l.Full()
	columns := int64(l.World() / l.PP) // of a pipeline's stages
	width := int64(4)
	if c.Precision == lowp.FP64.String() {
		width = 8
	}
	layers, _ := c.letters()
	perRank := memoryRank + memoryLayer*int64(len(layers)+l.PP-1)/int64(l.PP)
	return memoryBase + int64(l.World())*perRank + columns*(c.weightBytes(l, width)+width*c.activationElements(l))
}

// letters are all layers, and how many of the experts' weights they share.
func (c Config) letters() (layers, weighted string) {
	main, inner := c.Model.Layers()
	depths := c.Model.MTP.Depths
	if inner == "" {
		depths = 0
	}
	layers = main + strings.Repeat(inner, depths)
	if c.Model.MTP.Repeated {
		depths = min(depths, 1)
	}
	return layers, main + strings.Repeat(inner, depths)
}

// weightBytes is what the stages of a pipeline keep for parameters.
func (c Config) weightBytes(l parallel.Layout, width int64) int64 {
	m := c.Model
	_, weighted := c.letters()
	hidden := int64(m.Width)
	if m.MoE.Latent > 0 {
		hidden = int64(m.MoE.Latent)
	}
	experts := int64(strings.Count(weighted, "E")) * 2 * hidden * int64(m.MoE.Experts) * int64(m.MoE.Hidden)
	dense := m.Params() - experts
	embedding, uses := int64(m.Vocab)*int64(m.Width), int64(0)
	if m.Tied || strings.Contains(m.Pattern, "/") { // the head or the last stage has it too
		uses = 2
		if l.PP > 1 {
			dense += embedding
		}
	}
	dense, experts, embedding = dense/int64(l.TP), experts/int64(l.EP*l.ETP), embedding/int64(l.TP)
	return dense*c.parameterBytes(l, width, l.DP*l.CP) + experts*c.parameterBytes(l, width, max(l.DP*l.CP*l.TP/(l.EP*l.ETP), 1)) +
		embedding*(uses*width+8) // a gradient of each use, and what a digest is made of
}

// parameterBytes is what a rank keeps for a parameter that so many ranks have: the weight, its gradient, the master if it is another, copies of
// low precision, and a share of both moments and of the sum.
func (c Config) parameterBytes(l parallel.Layout, width int64, sharers int) int64 {
	n := 2 * width
	if c.Precision != lowp.FP32.String() && c.Precision != lowp.FP64.String() {
		n += width
	}
	n += width * copies[c.Precision].weights
	if c.Micro > 1 {
		n += width // a microbatch's gradient, before it is added
	}
	shard := 2 * width
	if l.World() > 1 {
		shard += width
	}
	if c.Optim.Replicated {
		sharers = 1
	}
	return n + (shard+int64(sharers)-1)/int64(sharers)
}

// copies are how many more tensors of a weight's size, and how many more quarters of activations, quantised operands keep.
var copies = map[string]struct{ weights, quarters int64 }{"fp8": {1, 2}, "mxfp8": {2, 4}, "nvfp4": {1, 6}}

// activationElements is what the stages of a pipeline keep of their microbatches under way.
func (c Config) activationElements(l parallel.Layout) int64 {
	m, tp := c.Model, int64(l.TP)
	tokens := int64(c.Batch) * int64(c.Seq) / int64(l.CP)
	layers, _ := c.letters()
	each := map[rune]int64{}
	for _, r := range "M*-E" {
		each[r] = c.layerElements(r, tp)
	}
	row := int64(0)
	for _, r := range layers {
		row += each[r]
	}
	row = row * c.underWay(l) / int64(l.PP*l.VPP)
	_, inner := m.Layers()
	heads := int64(1)
	if inner != "" {
		heads += int64(m.MTP.Depths)
	}
	row += heads * (2*int64(m.Vocab)/tp + 9*int64(m.Width))
	row += row * copies[c.Precision].quarters / 4
	if m.Recompute {
		row += row / 3
	}
	return tokens * row
}

// underWay counts the microbatches, forward and not yet backward, in all pieces of a pipeline.
func (c Config) underWay(l parallel.Layout) (n int64) {
	for stage := range l.PP {
		ahead := l.PP - stage
		if l.VPP > 1 {
			ahead = 2*ahead - 1 + (l.VPP-1)*l.PP
		}
		n += int64(min(c.Micro*l.VPP, ahead))
	}
	return n
}

// layerElements is what a layer keeps of a token.
func (c Config) layerElements(letter rune, tp int64) int64 {
	m := c.Model
	d := int64(m.Width)
	n := 13 * d / 2 / tp // norm, residual, and their gradients
	if tp > 1 {
		n += 4 * d // gathered, and parts of sums
	}
	switch letter {
	case '*':
		n += 5*d + (4*int64(m.P())*int64(m.Heads+m.KVHeads)+int64(m.Heads)*int64(c.Seq))/tp
	case '-':
		n += 4 * int64(m.Hidden) / tp
	case 'M':
		const chunk = 16 // of the scan: its states are kept
		n += (9*int64(m.SSM.Projected()) + 2*int64(m.SSM.Inner())*int64(m.SSM.State)/chunk) / tp
	case 'E':
		n += (8*int64(m.MoE.Experts) + 4*int64(m.MoE.SharedHidden) + int64(m.MoE.TopK)*(4*int64(m.MoE.Hidden)+6*d)) / tp
	}
	return n
}

// CheckMemory says why a run does not fit in so many bytes, and the nearest layout that does; nil: it may.
func (c Config) CheckMemory(l parallel.Layout, available int64) error {
	l = l.Full()
	need := c.Memory(l)
	if !exceeds(need, available) {
		return nil
	}
	text := "no layout with fewer ranks fits"
	if near, ok := c.smaller(l, available); ok {
		text = fmt.Sprintf("the nearest layout that fits: %q", near)
	}
	return fmt.Errorf("layout %q: needs about %s of memory for %d ranks, and %s are available; %s", l, size(need), l.World(), size(available), text)
}

// exceeds is certain of it: an estimate may be a quarter too high.
func exceeds(need, available int64) bool { return need-need/5 > available }

// smaller is the layout with the most ranks below l's that fits, of those with less of one axis. Experts are spread over as many of them as can be.
func (c Config) smaller(l parallel.Layout, available int64) (best parallel.Layout, ok bool) {
	for _, axis := range []string{"dp", "cp", "pp", "tp"} {
		for n := l.Extent(axis) - 1; n > 0; n-- {
			m := l
			m.EP = 1
			m = m.With(axis, n)
			m.EP = l.EP
			if ok && m.World() <= best.World() {
				break
			}
			if m, can := c.spread(m); can && !exceeds(c.Memory(m), available) {
				best, ok = m, true
				break
			}
		}
	}
	return best, ok
}

// spread lowers ep to what the other axes allow.
func (c Config) spread(l parallel.Layout) (parallel.Layout, bool) {
	for ; l.EP > 0; l.EP-- {
		if _, err := c.layoutError(l); err == nil {
			return l, true
		}
	}
	return l, false
}

func size(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
