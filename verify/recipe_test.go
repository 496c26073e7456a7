package verify

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/run"
)

// of are combinations of pico with some flags.
func of(t *testing.T, names ...string) (all []combination) {
	for _, f := range flags() {
		if slices.Contains(names, f.name) {
			c, ok := combine("pico", f)
			require.True(t, ok)
			all = append(all, c)
		}
	}
	require.Len(t, all, len(names))
	return all
}

// What deterministic mode accepts repeats, what it refuses parts. A mode that accepts everything, and one that refuses what repeats, are found out.
func TestRecipe(t *testing.T) {
	cells, err := recipeOf(of(t, "micro2", "pinned-tuner", "wgrad-split-k", "unshared-tuner"), (*run.Spec).Check, nil, func() {})
	require.NoError(t, err)
	require.Len(t, cells, 4)
	for _, c := range cells {
		require.True(t, c.OK, "%s: %v", c.Name, c.Why)
	}
	require.Equal(t, "pico wgrad-split-k: refused by wgrad-split-k", cells[3].Name)

	lax := func(s *run.Spec) error {
		s.Deterministic = false
		return s.Check()
	}
	cells, err = recipeOf(of(t, "micro2", "wgrad-split-k"), lax, nil, func() {})
	require.NoError(t, err)
	require.True(t, cells[0].OK)
	require.Contains(t, *cells[1].Why, "is accepted, and differs under another schedule: step 1: ")

	cells, err = recipeOf(of(t, "micro2"), func(*run.Spec) error { return run.Refusal{Rule: "micro"} }, nil, func() {})
	require.NoError(t, err)
	require.Equal(t, "has the same bits under 8 schedules", *cells[0].Why)
}

// Flags exclude each other where they set one thing differently; every rule and every preset is among the combinations.
func TestCombinations(t *testing.T) {
	all := combinations(flags())
	named := func(name string) bool {
		return slices.ContainsFunc(all, func(c combination) bool { return c.name == name })
	}
	require.False(t, named("tiny bf16 fp8"))
	require.True(t, named("tiny bf16 micro2"))
	require.True(t, named("tiny tp2 dp2") || named("tiny dp2 tp2"))
	for _, r := range run.Rules() {
		for _, preset := range []string{"pico", "tiny", "small", "gpt"} {
			require.True(t, named(preset+" "+r.ID), r.ID)
		}
	}
	for _, c := range all {
		if strings.HasPrefix(c.name, "tiny tp2 in-switch") {
			require.Equal(t, "dp=8,tp=2", c.spec.Layout.String())
		}
	}
}
