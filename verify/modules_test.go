package verify

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/run"
	"firstbit/train"
)

// Layouts repeat, are near one rank, and the last of each pattern runs elsewhere too; who runs something else there is found out.
func TestModules(t *testing.T) {
	elsewhere := 0
	other := func(s run.Spec, procs int) ([]train.Result, error) {
		elsewhere++
		s.Schedule.Seed = 77
		return InProcess(s, procs)
	}
	layouts := []string{"pp=2", "tp=2,ep=2"}
	cells, err := modulesOf(few(), layouts, other, nil)
	require.NoError(t, err)
	require.Len(t, cells, len(few())*(1+len(layouts)))
	for _, c := range cells {
		require.True(t, c.OK, "%s: %v", c.Name, c.Why)
	}
	require.Equal(t, len(few()), elsewhere)

	cells, err = modulesOf(few()[1:], []string{"pp=2"}, func(s run.Spec, procs int) ([]train.Result, error) {
		s.Config.Seed++
		return InProcess(s, procs)
	}, nil)
	require.NoError(t, err)
	for _, c := range cells {
		require.Equal(t, strings.HasPrefix(c.Name, "dp1 "), c.OK, c.Name)
		require.True(t, c.OK || strings.HasPrefix(*c.Why, "differs in another process: step 1: metric "), "%v", c.Why)
	}
}

// In few bits a layout repeats, and its metrics are near one rank's; what counts a gradient twice is not.
func TestModulesInFewBits(t *testing.T) {
	all := moduleVariants()
	of := []variant{all[len(all)-3], all[len(all)-1]}
	require.Equal(t, "nvfp4", of[1].precision)
	cells, err := modulesOf(of, []string{"ep=2"}, InProcess, nil)
	require.NoError(t, err)
	require.Len(t, cells, 4)
	for _, c := range cells {
		require.True(t, c.OK, "%s: %v", c.Name, c.Why)
	}
	one := Values{{Name: "step 1 metric grad_norm", Bits: []uint64{math.Float64bits(1)}}, {Name: "step 1 a.grad", Bits: []uint64{math.Float64bits(1)}}}
	twice := Values{{Name: "step 1 metric grad_norm", Bits: []uint64{math.Float64bits(2)}}, {Name: "step 1 a.grad", Bits: []uint64{math.Float64bits(-7)}}}
	require.Equal(t, "step 1 metric grad_norm by 1.0e+00 of its largest value", of[0].near(one, twice))
	require.Empty(t, of[0].near(one, append(one[:1:1], twice[1])), "gradients alone may be others")
}

// Of the first step's losses and gradients the one that is farthest is named, relative to its largest value; nothing else counts.
func TestFar(t *testing.T) {
	value := func(name string, x ...float64) Value {
		v := Value{Name: name}
		for _, f := range x {
			v.Bits = append(v.Bits, math.Float64bits(f))
		}
		return v
	}
	one := Values{value("step 1 a.grad", 4, 0), value("step 1 b.grad", 1), value("step 1 metric loss", 2), value("step 1 b", 1), value("step 2 a.grad", 1)}
	require.Empty(t, one.far(one, 0))
	require.Empty(t, one.far(Values{value("step 1 a.grad", 4, 0.04), one[1], one[2], value("step 1 b", 9), value("step 2 a.grad", 9)}, 0.01))
	require.Equal(t, "step 1 a.grad by 1.0e-02 of its largest value", one.far(Values{value("step 1 a.grad", 4, 0.04), one[1], one[2]}, 0.009))
	require.Contains(t, one.far(Values{value("step 1 a.grad", 4, 0.04), value("step 1 b.grad", 1.5), one[2]}, 0.009), "b.grad by 5.0e-01")
	require.Contains(t, one.far(Values{one[0], one[1], value("step 1 metric loss", 2.1)}, 0.01), "metric loss")
	require.Contains(t, one.far(Values{one[0], one[1]}, 0.01), "metric loss has another size")
	require.Contains(t, one.far(Values{value("step 1 a.grad", 4, math.NaN()), one[1], one[2]}, 0.01), "step 1 a.grad", "what is no number is far")
}
