package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
)

// The runs of a pipeline are the parts between |, and without one as many layers each; one rank has all layers either way.
func TestStages(t *testing.T) {
	cut := func(pattern string, of int) (runs []string) {
		c := Config{Pattern: pattern}
		main, _ := c.Layers()
		for at := range of {
			lo, hi := c.stage(at, of)
			runs = append(runs, main[lo:hi])
		}
		return runs
	}
	for _, c := range []struct {
		pattern string
		runs    []string
	}{
		{"M*E-", []string{"M*", "E-"}}, {"M*E-E/*E", []string{"M*", "E-E"}}, {"M*E-E", []string{"M", "*E", "-E"}},
		{"M|*E-", []string{"M", "*E-"}}, {"M*E|-/*E", []string{"M*E", "-"}}, {"M|*|E|--", []string{"M", "*", "E", "--"}},
		{"M|*E-/*E", []string{"M*E-"}}, {"M*E-", []string{"M*E-"}},
	} {
		require.Equal(t, c.runs, cut(c.pattern, len(c.runs)), c.pattern)
	}
	main, inner := Config{Pattern: "M|*E|-/*E"}.Layers()
	require.Equal(t, []string{"M*E-", "*E"}, []string{main, inner})
}

// A pattern with cuts is for as many stages, or for one rank.
func TestCutsFitTheLayout(t *testing.T) {
	c := small("*-|E-|E")
	for _, l := range []parallel.Layout{{}, {DP: 2}, {PP: 3, DP: 2}} {
		_, err := c.CheckLayout(l)
		require.NoError(t, err, "%s", l)
	}
	for _, l := range []parallel.Layout{{PP: 2}, {PP: 2, VPP: 2}, {PP: 5}} {
		axis, err := c.CheckLayout(l)
		require.Equal(t, "pp", axis)
		require.ErrorContains(t, err, "must be the stages that model.pattern has by its | (3), or 1")
	}
	axis, err := c.CheckLayout(parallel.Layout{PP: 3, VPP: 2})
	require.Error(t, err)
	require.Equal(t, "vpp", axis, "as many ranks fit")
	c.Pattern = "*-|E-|E|-"
	_, err = c.CheckLayout(parallel.Layout{PP: 2, VPP: 2})
	require.NoError(t, err)
}
