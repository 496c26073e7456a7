package verify

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"firstbit/parallel"
	"firstbit/train"
)

// Tolerances of the first step against one rank's, relative to each tensor's largest value. In few bits a scale may be over what a rank has, so
// that other routes are taken and gradients are others: there only metrics are compared, the norm of all gradients among them.
var (
	moduleTolerances = map[string]float64{"fp32": 1e-5, "bf16": 2e-2, "fp16": 4e-3, "mxfp8": 5e-2}
	metricTolerances = map[string]float64{"fp8": 0.15, "nvfp4": 0.15}
)

// moduleVariants are those of the matrix, and the hybrid with operands of few bits.
func moduleVariants() []variant {
	all := variants()
	for _, precision := range []string{"fp8", "mxfp8", "nvfp4"} {
		all = append(all, variant{matrixPatterns[2], precision, plain})
	}
	return all
}

// ModuleCells is the number of cells of Modules over so many layouts.
func ModuleCells(layouts int) int { return len(moduleVariants()) * (1 + layouts) }

// Modules runs the matrix, and the hybrid in few bits, over some layouts by the fixed recipe. A cell is ok if it has the same bits under two
// schedules, and if losses and gradients of the first step are near those of one rank. The last layout of each variant runs with the other Runner
// too, which is to be another process.
func Modules(layouts []string, other Runner, each func(Cell) error) ([]Cell, error) {
	return modulesOf(moduleVariants(), layouts, other, each)
}

// near says why the first step of a layout is not that of one rank; empty: it is.
func (s variant) near(one, got Values) string {
	if tolerance, few := metricTolerances[s.precision]; few {
		return one.metrics().far(got, tolerance)
	}
	return one.far(got, moduleTolerances[s.precision])
}

func modulesOf(of []variant, layouts []string, other Runner, each func(Cell) error) ([]Cell, error) {
	last := ""
	if len(layouts) > 0 {
		l, err := parallel.ParseLayout(layouts[len(layouts)-1])
		if err != nil {
			return nil, err
		}
		last = l.String()
	}
	return matrix(of, layouts, each, func(s variant, l parallel.Layout, one Values) (Cell, Values, error) {
		cell, got, err := s.twice(l, "fixed")
		if err == nil && cell.OK && one != nil {
			if far := s.near(one, got); far != "" {
				cell.fail("is far from one rank: " + far)
			}
		}
		if err == nil && cell.OK && l.String() == last {
			err = s.elsewhere(l, other, &cell)
		}
		return cell, got, err
	})
}

// metrics are the values that are metrics.
func (v Values) metrics() (all Values) {
	for _, x := range v {
		if strings.Contains(x.Name, " metric ") {
			all = append(all, x)
		}
	}
	return all
}

// far names the loss or gradient of the first step that is farthest from another run's; empty: none is farther than the tolerance.
func (v Values) far(u Values, tolerance float64) (why string) {
	other := map[string]Value{}
	for _, x := range u {
		other[x.Name] = x
	}
	worst := tolerance
	for _, x := range v {
		loss, grad := strings.HasPrefix(x.Name, "step 1 metric "), strings.HasPrefix(x.Name, "step 1 ") && strings.HasSuffix(x.Name, ".grad")
		if !loss && !grad {
			continue
		}
		y := other[x.Name]
		if len(y.Bits) != len(x.Bits) {
			return x.Name + " has another size"
		}
		largest, off := 0.0, 0.0
		for i, b := range x.Bits {
			a, b := math.Float64frombits(b), math.Float64frombits(y.Bits[i])
			largest, off = max(largest, math.Abs(a)), max(off, math.Abs(a-b))
		}
		if !(off <= largest*worst) { // or is no number
			worst = off / largest
			why = fmt.Sprintf("%s by %.1e of its largest value", x.Name, worst)
			if math.IsNaN(worst) { // nothing is farther
				return why
			}
		}
	}
	return why
}

// elsewhere compares metrics and state of every step with those of another process.
func (s variant) elsewhere(l parallel.Layout, other Runner, cell *Cell) error {
	spec := s.spec(l, "fixed")
	spec.Digest = true
	here, err := InProcess(spec, 2)
	if err != nil {
		return err
	}
	there, err := other(spec, 1)
	if err != nil {
		return err
	}
	if why := sameSteps(here, there); why != "" {
		cell.fail("differs in another process: " + why)
	}
	return nil
}

// sameSteps says where the steps of two runs first differ; empty: nowhere. Metrics are compared by name.
func sameSteps(a, b []train.Result) string {
	if len(a) != len(b) {
		return fmt.Sprintf("%d steps and %d", len(a), len(b))
	}
	for i := range a {
		if why := differs(byName(a[i]), byName(b[i])); why != "" {
			return fmt.Sprintf("step %d: %s", a[i].Step, why)
		}
	}
	return ""
}

func byName(r train.Result) train.Result {
	r.Metrics = slices.Clone(r.Metrics)
	slices.SortFunc(r.Metrics, func(a, b train.Metric) int { return strings.Compare(a.Name, b.Name) })
	return r
}
