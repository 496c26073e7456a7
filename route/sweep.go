package route

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/lowp"
	"firstbit/run"
	"firstbit/train"
)

// Sweeps are what can be swept, each over its own values with all else as given.
var Sweeps = []string{"bits", "precisions", "experts", "layers", "steps"}

// experts are the numbers of experts that a sweep tries.
var experts = []int{4, 8, 16, 32, 64}

// one is a value of a sweep.
type one struct {
	value string
	spec  run.Spec
	flip  Flip
}

// Sweep runs the flip once for each value of what is swept. each is called after every one.
//
// Errors: an unknown name, and what Run refuses.
func Sweep(spec run.Spec, f Flip, what string, each func()) ([]Point, error) {
	values, err := valuesOf(spec, f, what)
	if err != nil {
		return nil, err
	}
	points := []Point{}
	for _, v := range values {
		r, err := pair(v.spec, v.flip, unwatched)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", what, v.value, err)
		}
		points = append(points, r.point(v.value))
		each()
	}
	return points, nil
}

// Values is how many a sweep has.
func Values(spec run.Spec, f Flip, what string) (int, error) {
	v, err := valuesOf(spec, f, what)
	return len(v), err
}

func valuesOf(spec run.Spec, f Flip, what string) (v []one, err error) {
	add := func(value any, spec run.Spec, flip Flip) { v = append(v, one{fmt.Sprint(value), spec, flip}) }
	switch what {
	case "bits":
		out, err := f.output(spec)
		if err != nil {
			return nil, err
		}
		format, err := lowp.Parse(out.Dtype)
		if err != nil {
			return nil, err
		}
		for f.Bit = 0; f.Bit < format.Bits(); f.Bit++ {
			add(f.Bit, spec, f)
		}
	case "precisions":
		for _, p := range precisions() {
			s := spec
			s.Config.Precision = p
			add(p, s, f)
		}
	case "experts":
		for _, n := range experts {
			if s := spec; n > s.Config.Model.MoE.TopK {
				s.Config.Model.MoE.Experts = n
				add(n, s, f)
			}
		}
		if len(v) == 0 {
			return nil, fmt.Errorf("model.moe.top_k: %d: must be below %d, the most experts of a sweep", spec.Config.Model.MoE.TopK, experts[len(experts)-1])
		}
	case "layers":
		blocks, _, _ := strings.Cut(spec.Config.Model.Pattern, "/")
		for n, kind := range strings.ReplaceAll(blocks, "|", "") {
			f.Call = fmt.Sprintf("layers.%d.y", n)
			add(fmt.Sprintf("%s %c", f.Call, kind), spec, f)
		}
	case "steps":
		for f.Step = 1; f.Step <= spec.Config.Steps; f.Step *= 2 {
			add(f.Step, spec, f)
		}
	}
	return v, nil
}

// precisions go from the widest to the narrowest.
func precisions() []string {
	widest := []string{"fp64", "fp32", "fp16", "bf16"}
	p := slices.Clone(train.Precisions)
	slices.SortStableFunc(p, func(a, b string) int { return rank(widest, a) - rank(widest, b) })
	return p
}

func rank(order []string, name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}
