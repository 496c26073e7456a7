package verify

import (
	"fmt"
	"math"
	"strings"

	"firstbit/parallel"
)

// Tolerances of the first step against one rank's, relative to each tensor's largest value.
var moduleTolerances = map[string]float64{"fp32": 1e-5, "bf16": 2e-2}

// ModuleCells is the number of cells of Modules.
func ModuleCells() int { return matrixCells() }

// Modules runs the matrix by the fixed recipe. A cell is ok if it has the same bits under two schedules, and if losses and
// gradients of the first step are near those of one rank.
func Modules(each func(Cell)) ([]Cell, error) {
	return matrix(each, func(s setting, l parallel.Layout, one Values) (Cell, Values, error) {
		cell, got, err := s.twice(l, "fixed")
		if err == nil && cell.OK && one != nil {
			if far := one.far(got, moduleTolerances[s.precision]); far != "" {
				cell.fail("is far from one rank: " + far)
			}
		}
		return cell, got, err
	})
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
		if off > largest*worst {
			worst = off / largest
			why = fmt.Sprintf("%s by %.1e of its largest value", x.Name, worst)
		}
	}
	return why
}
