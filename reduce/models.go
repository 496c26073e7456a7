package reduce

import (
	"math"

	"firstbit/lowp"
)

// model is something that a box may be.
type model struct {
	class, detail string
	tree          *Tree       // nil: the one that was found
	fused         *FusedAdder // nil: no node is one
	sum           func(x []float32) float64
}

// models are what a box may be whose tree in the formats that were expected gives other bits, or that has none. The first that gives all
// answers is taken.
//
// A box that loses nothing under the mask has no tree: exact sums and those that add errors up apart. One that loses all but the
// masks has a flat one: fused and binned sums. One that carries the error of the last addition along has that of a chain.
func (j *judge) models() ([]model, error) {
	t := j.found.Tree
	var out []model
	adders := []Adder{Exact, Neumaier}
	if !t.isEmpty() {
		out = append(out, inFormats(j.found.Class, &t)...)
		for _, v := range valued {
			out = append(out, model{class: j.found.Class, detail: v.name + ", partial sums in fp32, rounded to " + v.to.String() + " once", tree: &t, sum: func(x []float32) float64 { return float64(v.to.Round(t.Sum(v.of(x), lowp.FP32))) }})
		}
		adders = []Adder{Binned, Kahan}
	}
	for _, by := range adders {
		for _, leaves := range [][]int{upTo(0, j.n, 1), upTo(j.n-1, j.n, -1), t.Leaves()} {
			if len(leaves) == j.n {
				whole := adding(by, leaves)
				these := inFormats(by.String(), &whole)
				if by == Binned { // which is exact in fp64
					these = these[:3]
				}
				expected := model{class: by.String(), detail: "partial sums in " + j.formats.Acc.String(), tree: &whole, sum: func(x []float32) float64 { return float64(whole.Sum(x, j.formats.Acc)) }}
				out = append(append([]model{expected}, out...), these...) // first in the format that was expected
			}
		}
	}
	if !fused(t) {
		return out, nil
	}
	adder, ok, err := j.adder(t)
	if err != nil || !ok {
		return out, err
	}
	out = append(out, model{class: classFused, fused: &adder, sum: func(x []float32) float64 { return float64(adder.sumOf(t, x)) }})
	for _, v := range valued {
		for _, to := range []lowp.Format{lowp.FP32, v.to} {
			out = append(out, model{class: classFused, detail: v.name, fused: &adder, sum: func(x []float32) float64 { return float64(to.Round(adder.sumOf(t, v.of(x)))) }})
		}
	}
	return out, nil
}

// adder asks how nodes of more than two add; not ok: otherwise than an adder can.
func (j *judge) adder(t Tree) (a FusedAdder, ok bool, err error) {
	a, ok = ProbeFused(t, j.n, func(x []float32) float32 {
		got, failed := j.question(x)
		if failed != nil {
			err = failed
		}
		return float32(got)
	})
	return a, ok, err
}

// valued are the formats to which a box may bring the values before it adds, with that of its sum.
var valued = []struct {
	name string
	to   lowp.Format
	of   func(x []float32) []float32
}{
	{"values in bf16", lowp.BF16, func(x []float32) []float32 { return each(x, lowp.BF16.Round) }},
	{"values in fp16", lowp.FP16, func(x []float32) []float32 { return each(x, lowp.FP16.Round) }},
	{"values cut to tf32", lowp.FP32, func(x []float32) []float32 { return each(x, tf32) }},
}

// tf32 is a value cut to 10 bits of fraction.
func tf32(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1<<13 - 1)) }

func each(x []float32, do func(float32) float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = do(v)
	}
	return y
}

// inFormats is a tree whose partial sums are held in each format, or in fp64 and rounded once, or in fp64 altogether.
func inFormats(class string, t *Tree) []model {
	var out []model
	for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
		out = append(out, model{class: class, detail: "partial sums in " + acc.String(), tree: t, sum: func(x []float32) float64 { return float64(t.Sum(x, acc)) }})
	}
	wide := func(x []float32) float64 { return t.wide(x) }
	for _, to := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
		out = append(out, model{class: class, detail: "partial sums in fp64, rounded to " + to.String() + " once", tree: t, sum: func(x []float32) float64 { return float64(roundedTo(wide(x), to)) }})
	}
	return append(out, model{class: class, detail: "partial sums in fp64", tree: t, sum: wide})
}

func roundedTo(v float64, to lowp.Format) float32 {
	if math.IsInf(v, 0) || v != v {
		return float32(v)
	}
	return roundOnce(v, to)
}

// wide is the sum by the tree in fp64.
func (t Tree) wide(x []float32) float64 {
	if t.isLeaf() {
		return float64(x[t.Leaf])
	}
	parts := make([]float64, len(t.Kids))
	for i, k := range t.Kids {
		parts[i] = k.wide(x)
	}
	return AddBy(t.By, parts, lowp.FP32)
}
