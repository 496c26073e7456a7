// Package verify proves guarantees by running them.
package verify

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"firstbit/device"
	"firstbit/experiments"
	"firstbit/parallel"
	"firstbit/train"
)

// Cell is one guarantee in one setting.
type Cell struct {
	Name string  `json:"name"`
	OK   bool    `json:"ok"`
	Hash string  `json:"hash"`
	Why  *string `json:"why"` // it did not hold; nil: it did
}

// The cells of Layouts. Each runs layoutSteps steps on one global batch.
var (
	LayoutRanks      = []int{1, 2, 4, 8}
	LayoutPatterns   = []string{"*-", "M-", "M*E-/*E"}
	LayoutPrecisions = []string{"fp32", "bf16"}
)

const (
	layoutBatch = 8
	layoutSteps = 3
)

// LayoutCells is the number of cells of Layouts.
func LayoutCells() int { return len(LayoutRanks) * len(LayoutPatterns) * len(LayoutPrecisions) }

// layoutConfig is tiny with a global batch of which every layout takes a share.
func layoutConfig(pattern, precision string, dp int) train.Config {
	c := train.Tiny()
	c.Model.Pattern, c.Precision, c.Steps, c.Batch = pattern, precision, layoutSteps, layoutBatch/dp
	c.Model.MoE.Aux = "sequence"
	return c
}

// Layouts runs every layout of every pattern and precision by a recipe. A cell is ok if weights, moments, gradients
// and losses of all steps are those of one rank, under two schedules. Each is called with every cell; nil: nobody watches.
// one is the hash of the hashes of one rank.
func Layouts(recipe string, each func(Cell)) (cells []Cell, one string, err error) {
	all := xxh3.New()
	for _, pattern := range LayoutPatterns {
		for _, precision := range LayoutPrecisions {
			var want Values
			for _, dp := range LayoutRanks {
				cell, got, err := layoutCell(recipe, layoutConfig(pattern, precision, dp), dp, want)
				if err != nil {
					return nil, "", fmt.Errorf("%s: %w", cell.Name, err)
				}
				if dp == 1 {
					want = got
					_, _ = all.WriteString(cell.Hash) // a hash does not fail
				}
				cells = append(cells, cell)
				if each != nil {
					each(cell)
				}
			}
		}
	}
	return cells, hexOf(all), nil
}

// layoutCell runs a layout under two schedules and compares it with itself and with one rank.
func layoutCell(recipe string, c train.Config, dp int, want Values) (Cell, Values, error) {
	cell := Cell{Name: fmt.Sprintf("dp%d %s %s", dp, c.Model.Pattern, c.Precision)}
	run := func(seed uint64) (Values, error) {
		return Run(experiments.Spec{Config: c, Layout: parallel.Layout{DP: dp}, Recipe: recipe, Schedule: device.Schedule{Seed: seed}})
	}
	got, err := run(1)
	if err != nil {
		return cell, nil, err
	}
	again, err := run(2)
	if err != nil {
		return cell, nil, err
	}
	cell.Hash = got.Hash()
	if want == nil {
		want = got
	}
	why := ""
	if d := want.Differ(got); d != "" {
		why = "differs from one rank: " + d
	} else if d := got.Differ(again); d != "" {
		why = "differs under another schedule: " + d
	}
	if cell.OK = why == ""; !cell.OK {
		cell.Why = &why
	}
	return cell, got, nil
}

// Values are what a run computed, whichever rank held it: of every step the metrics, and of every parameter the weight,
// master, moments and gradient, in full.
type Values []Value

// Value is the elements of a named tensor, as bits.
type Value struct {
	Name string
	Bits []uint64
}

// Run runs a Spec and collects its Values. That ranks hold copies of one weight that differ, or parts of a tensor that
// overlap or leave something out, is an error.
func Run(s experiments.Spec) (Values, error) {
	ranks := make([][]rankStep, max(s.Layout.DP, 1))
	s.EachRank = func(rank int, t *train.Trainer, r train.Result) {
		ranks[rank] = append(ranks[rank], collect(t, r))
	}
	if _, err := experiments.Run(s); err != nil {
		return nil, err
	}
	var all Values
	for step := range ranks[0] {
		v, err := join(ranks, step)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step+1, err)
		}
		all = append(all, v...)
	}
	return all, nil
}

// rankStep is what a rank holds after a step: whole values, and parts of values.
type rankStep struct {
	whole Values
	parts []part
}

type part struct {
	Value
	lo, of int // where it begins, and the elements of the whole
}

func collect(t *train.Trainer, r train.Result) rankStep {
	var s rankStep
	for _, m := range r.Metrics {
		s.whole = append(s.whole, Value{"metric " + m.Name, []uint64{math.Float64bits(m.Value)}})
	}
	held := t.Optim.States()
	for _, p := range t.Model.Params() {
		s.whole = append(s.whole, Value{p.Name, bitsOf(p.W)})
		for _, h := range held[p] {
			for _, x := range []struct {
				name string
				*device.Tensor
			}{{"master", h.Master}, {"m", h.M}, {"v", h.V}, {"grad", h.Grad}} {
				s.parts = append(s.parts, part{Value{p.Name + "." + x.name, bitsOf(x.Tensor)}, h.Lo, p.W.Len()})
			}
		}
	}
	for _, x := range t.Model.Routers() {
		s.whole = append(s.whole, Value{x.Scope + ".bias", bitsOf(x.Bias)})
	}
	return s
}

// join makes one of what the ranks hold after a step.
func join(ranks [][]rankStep, step int) (Values, error) {
	whole := ranks[0][step].whole
	parts := map[string]Value{}
	filled := map[string]int{}
	var names []string
	for rank, steps := range ranks {
		s := steps[step]
		if why := whole.Differ(s.whole); why != "" {
			return nil, fmt.Errorf("ranks 0 and %d hold other copies: %s", rank, why)
		}
		for _, p := range s.parts {
			v, seen := parts[p.Name]
			if !seen {
				v = Value{p.Name, make([]uint64, p.of)}
				parts[p.Name] = v
				names = append(names, p.Name)
			}
			copy(v.Bits[p.lo:], p.Bits)
			filled[p.Name] += len(p.Bits)
		}
	}
	all := slices.Clone(whole)
	slices.Sort(names)
	for _, name := range names {
		if v := parts[name]; filled[name] != len(v.Bits) {
			return nil, fmt.Errorf("%s: ranks hold %d of %d elements", name, filled[name], len(v.Bits))
		}
		all = append(all, parts[name])
	}
	for i := range all {
		all[i].Name = fmt.Sprintf("step %d %s", step+1, all[i].Name)
	}
	return all, nil
}

// Differ says where two runs differ first, and in how much; empty: nowhere.
func (v Values) Differ(u Values) string {
	if len(v) != len(u) {
		return fmt.Sprintf("%d values and %d", len(v), len(u))
	}
	first, tensors := "", 0
	for i := range v {
		if v[i].Name != u[i].Name || len(v[i].Bits) != len(u[i].Bits) {
			return fmt.Sprintf("%s (%d) and %s (%d)", v[i].Name, len(v[i].Bits), u[i].Name, len(u[i].Bits))
		}
		count := 0
		for j, b := range v[i].Bits {
			if b != u[i].Bits[j] {
				count++
			}
		}
		if count == 0 {
			continue
		}
		if tensors++; first == "" {
			first = fmt.Sprintf("%s in %d of %d elements", v[i].Name, count, len(v[i].Bits))
		}
	}
	if tensors == 0 {
		return ""
	}
	return fmt.Sprintf("%s; %d of %d values differ", first, tensors, len(v))
}

// Hash is XXH3-128 of names and bits.
func (v Values) Hash() string {
	h := xxh3.New()
	var word [8]byte
	for _, x := range v {
		_, _ = h.WriteString(x.Name) // a hash does not fail
		for _, b := range x.Bits {
			binary.LittleEndian.PutUint64(word[:], b)
			_, _ = h.Write(word[:])
		}
	}
	return hexOf(h)
}

func hexOf(h *xxh3.Hasher) string {
	sum := h.Sum128().Bytes()
	return hex.EncodeToString(sum[:])
}

// bitsOf are the elements' bits, widened without loss.
func bitsOf(t *device.Tensor) []uint64 {
	bits := make([]uint64, t.Len())
	for i := range bits {
		bits[i] = math.Float64bits(t.Value(i))
	}
	return bits
}
