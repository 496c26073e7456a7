package reduce

import (
	"fmt"
	"math"
	"math/bits"

	"firstbit/lowp"
)

// judge asks a box whose tree is known, or known to be none, what else there is to know.
type judge struct {
	n       int
	box     Box
	formats Formats
	half    bool // values are brought to fp16
	found   Revealed
	asked   []answer
}

// answer is a question of the replay with the box's answer.
type answer struct {
	x   []float32
	got float64
}

// replays is the number of random questions of each sort.
const replays = 8

// judged replays, names the class, and if the tree does not say the bits, finds what does.
func (j *judge) judged() (Revealed, error) {
	if err := j.ask(replays, j.random); err != nil {
		return Revealed{}, err
	}
	if err := j.ask(2, j.halfUlps); err != nil {
		return Revealed{}, err
	}
	if t := j.found.Tree; !t.isEmpty() {
		j.found.Class = classify(t, j.n)
		if j.expected(t) {
			if j.found.Verified = true; j.found.Class == classFused {
				a, ok, err := j.adder(t)
				if ok {
					j.found.Fused = &a
				}
				return j.found, err
			}
			return j.found, nil
		}
	}
	if varies, err := j.varies(); varies || err != nil {
		return j.found, err
	}
	if err := j.ask(replays, j.cancelling); err != nil {
		return Revealed{}, err
	}
	models, err := j.models()
	if err != nil {
		return Revealed{}, err
	}
	for _, m := range models {
		if j.holds(m.sum) {
			j.found.Class, j.found.Detail, j.found.Fused, j.found.Verified = m.class, m.detail, m.fused, true
			if m.tree != nil {
				j.found.Tree = *m.tree
			}
			return j.found, nil
		}
	}
	return j.found, j.noSum()
}

// expected tells whether the tree in the formats that were expected gives the answers. Where sums are stored or sent narrower it is the class
// that says which; what all are to have is sent, too.
func (j *judge) expected(t Tree) bool {
	if o, err := ParseOrder(j.found.Class); err == nil && !j.formats.uniform() {
		t = o.Tree(j.n)
	}
	sum := func(x []float32) float32 { return t.SumIn(x, j.formats) }
	return j.holds(func(x []float32) float64 { return float64(sum(x)) }) ||
		j.formats.Wire != lowp.FP32 && j.holds(func(x []float32) float64 { return float64(j.formats.Wire.Round(sum(x))) })
}

// question is one more call, which is counted.
func (j *judge) question(x []float32) (float64, error) {
	j.found.Checks++
	return j.box(append([]float32(nil), x...))
}

// ask puts so many questions.
func (j *judge) ask(many uint64, draw func(seed uint64) []float32) error {
	for i := range many {
		x := draw(uint64(j.n) + i<<32)
		got, err := j.question(x)
		if err != nil {
			return err
		}
		j.asked = append(j.asked, answer{x, got})
	}
	return nil
}

// holds tells whether a sum has given the answers so far.
func (j *judge) holds(sum func(x []float32) float64) bool {
	for _, a := range j.asked {
		if !sameValue(sum(a.x), a.got) {
			return false
		}
	}
	return true
}

func sameValue(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

// random are values of mixed sign and size.
func (j *judge) random(seed uint64) []float32 {
	x := make([]float32, j.n)
	for i := range x {
		seed += 0x9e3779b97f4a7c15
		h := mix(seed)
		v := float32(int64(h)>>40) * 0x1p-23
		x[i] = j.formats.Acc.Round(v * float32(uint(1)<<(bits.Len8(uint8(h))%8)))
	}
	return x
}

// halfUlps are 1, at either end, and values of which it loses each, but not several at once: a sum that carries errors along keeps them.
func (j *judge) halfUlps(seed uint64) []float32 {
	x := make([]float32, j.n)
	for i := range x {
		x[i] = float32(j.formats.Acc.Unit())
	}
	x[int(seed>>32%2)*(j.n-1)] = 1 // fits: an index
	return x
}

// cancelling are values among which a very large one and a large one come and go, so that what compensates for rounding errors keeps the rest,
// and what does so in one more partial sum loses it.
func (j *judge) cancelling(seed uint64) []float32 {
	x := j.random(seed)
	large, huge := float32(0x1p30), float32(0x1p60)
	switch {
	case j.half:
		large, huge = 4, 0x1p14
		for i := range x {
			x[i] = lowp.FP16.Round(x[i] * 0x1p-9)
		}
	case j.found.Tree.isEmpty(): // fp64, too, loses what is so far apart
		large, huge = 0x1p60, 0x1p120
	}
	at := Permutation(seed, j.n)
	for i, v := range []float32{huge, large, -huge, -large} {
		if i < len(at) {
			x[at[i]] = v
		}
	}
	return x
}

// varies asks again what was asked, several times.
func (j *judge) varies() (bool, error) {
	for _, a := range j.asked {
		for range 4 {
			again, err := j.question(a.x)
			if err != nil {
				return false, err
			}
			if !sameValue(again, a.got) {
				j.found.Tree, j.found.Class, j.found.Counter = Empty, "varies", &CounterExample{a.x, again, a.got}
				j.found.Detail = "the order varies from call to call: the same question has two answers"
				return true, nil
			}
		}
	}
	return false, nil
}

// noSum says of a box that no model fits whether it is a sum at all.
func (j *judge) noSum() error {
	t := j.found.Tree
	j.found.Class, j.found.Detail = "other", "a sum by no order and in no format that is known here"
	if !t.isEmpty() {
		first := j.asked[0]
		for _, a := range j.asked {
			if want := float64(t.SumIn(a.x, j.formats)); !sameValue(want, a.got) {
				first = a
				break
			}
		}
		j.found.Counter = &CounterExample{first.x, first.got, float64(t.SumIn(first.x, j.formats))}
	}
	x := make([]float32, j.n)
	for i := -1; i < j.n; i++ {
		want := 0.0
		if clear(x); i >= 0 {
			x[i], want = 1, 1
		}
		got, err := j.question(x)
		if err != nil {
			return err
		}
		if got != want {
			j.found.Tree, j.found.Class, j.found.Counter = Empty, "not a sum", &CounterExample{x, got, want}
			j.found.Detail = fmt.Sprintf("of these values the sum is %v, whatever the order", want)
			return nil
		}
	}
	return nil
}
