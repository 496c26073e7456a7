package run

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"firstbit/lowp"
	"firstbit/reduce"
)

// farApart is more than rounding errors make of sums of a few values, relative to the largest.
const farApart = 1e-3

// noSum looks for an element that the Call writes which is more than the sum of what it is for each element of an operand alone, whatever the
// order.
func (p *probe) noSum() reduce.Revealed {
	f := &finder{probe: p, n: leavesMost, rng: rand.New(rand.NewPCG(2, 2))}
	m := p.members[p.self]
	apart := true
	for input, given := range m.given {
		if len(given) == 0 || len(p.members) > 1 {
			continue
		}
		base := operands{slices.Clone(m.given)}
		base[0][input] = make([]float32, len(given))
		for _, support := range f.supports(input, operands{slices.Clone(m.given)}) {
			apart = false
			var at []address
			for _, e := range support {
				at = append(at, address{0, input, e})
			}
			if found, ok := f.superposed(base, at); !ok {
				return found
			}
		}
	}
	if apart {
		return reduce.Revealed{Tree: reduce.Empty, Class: noSum, Detail: "no floating-point element that is written depends on two of an operand"}
	}
	return reduce.Revealed{Tree: reduce.Empty, Class: hidden, Detail: "adds, by nothing that its plan chooses"}
}

// superposed tells whether what is written for some values is, but for rounding, the sum of what is written for each.
func (f *finder) superposed(base operands, at []address) (found reduce.Revealed, ok bool) {
	f.ask(f.plan, base, nil, nil)
	none := floats(f.written(nil))
	x := f.random(len(at))
	f.ask(f.plan, base, at, x)
	got := floats(f.written(nil))
	sum, largest := make([]float64, len(got)), make([]float64, len(got))
	one := make([]float32, len(at))
	for i := range at {
		clear(one)
		one[i] = x[i]
		f.ask(f.plan, base, at, one)
		for o, y := range floats(f.written(nil)) {
			sum[o] += y - none[o]
			largest[o] = max(largest[o], math.Abs(y))
		}
	}
	for o := range got {
		want := sum[o] + none[o]
		if !(math.Abs(got[o]-want) <= farApart*max(largest[o], math.Abs(got[o]))) {
			return reduce.Revealed{Tree: reduce.Empty, Class: noSum, Counter: &reduce.CounterExample{X: x, Got: got[o], Want: want},
				Detail: fmt.Sprintf("what is written for %d values is not the sum of what is written for each", len(at))}, false
		}
	}
	return found, true
}

func floats(bits []uint32) []float64 {
	x := make([]float64, len(bits))
	for i, b := range bits {
		x[i] = float64(lowp.FP32.Decode(b))
	}
	return x
}
