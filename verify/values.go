package verify

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/run"
	"firstbit/state"
	"firstbit/train"
)

// Values are what a run computed, whichever rank held it: of every step the metrics, and of every parameter the weight,
// master, moments and gradient, in full.
type Values []Value

// Value is the elements of a named tensor, as bits.
type Value struct {
	Name string
	Bits []uint64
}

// Run runs a Spec and collects its Values. That ranks hold copies of one value that differ, or that nobody holds some, is an error.
func Run(s run.Spec) (Values, error) {
	ranks := make([][]rankStep, s.Layout.World())
	s.EachRank = func(rank int, t *train.Trainer, r train.Result) error {
		ranks[rank] = append(ranks[rank], collect(t, r))
		return nil
	}
	if _, err := run.Run(s); err != nil {
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

// rankStep is what a rank holds after a step.
type rankStep []part

// part is the part of a value that a rank holds.
type part struct {
	Value
	place state.Place
}

// compared are the roles of which layouts must have the same bits.
func compared(r state.Role) bool {
	switch r {
	case state.Weight, state.Master, state.FirstMoment, state.SecondMoment, state.Gradient, state.RouterBias:
		return true
	}
	return false
}

func collect(t *train.Trainer, r train.Result) (s rankStep) {
	for _, m := range r.Metrics {
		s = append(s, part{Value{"metric " + m.Name, []uint64{lowp.Bits(m.Value)}}, state.Place{Whole: []int{1}}})
	}
	for _, h := range t.States(compared) {
		s = append(s, part{Value{h.Name, bitsOf(h.Tensor)}, h.Place})
	}
	return s
}

// joined is a value under way, and who holds each of its elements.
type joined struct {
	Value
	holder []int // a rank and one; 0: nobody yet
}

// join makes one of what the ranks hold after a step.
func join(ranks [][]rankStep, step int) (Values, error) {
	values := map[string]*joined{}
	var names []string
	for rank, steps := range ranks {
		for _, p := range steps[step] {
			v := values[p.Name]
			if v == nil {
				v = &joined{Value{p.Name, make([]uint64, p.place.Elements())}, make([]int, p.place.Elements())}
				values[p.Name] = v
				names = append(names, p.Name)
			}
			for i, b := range p.Bits {
				at := p.place.Index(i)
				if h := v.holder[at]; h > 0 && v.Bits[at] != b {
					return nil, fmt.Errorf("ranks %d and %d hold other copies of %s: element %d", h-1, rank, p.Name, at)
				}
				v.Bits[at], v.holder[at] = b, rank+1
			}
		}
	}
	slices.Sort(names)
	var all Values
	for _, name := range names {
		v := values[name]
		if at := slices.Index(v.holder, 0); at >= 0 {
			return nil, fmt.Errorf("%s: no rank holds element %d", name, at)
		}
		v.Name = fmt.Sprintf("step %d %s", step+1, name)
		all = append(all, v.Value)
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
		bits[i] = lowp.Bits(t.Value(i))
	}
	return bits
}
