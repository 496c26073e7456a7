package diff

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var twoSteps = &Spread{Steps: []SpreadStep{
	{1, []SpreadCall{{"layers.0.a", 0, 0, 2}, {"layers.1.b", 0, 1, 2}, {"layers.0.a", 1, 1, 2}, {"layers.1.b", 1, 0, 2}}},
	{2, []SpreadCall{{"layers.0.a", 0, 2, 2}, {"loss", 0, 1, 1}}},
}}

func TestHeatSumsUp(t *testing.T) {
	h := twoSteps.ByPart()
	require.Equal(t, []string{"layers.0", "layers.1", "loss"}, h.Rows)
	require.Equal(t, [][]Cell{{{1, 4}, {2, 2}}, {{1, 4}, {}}, {{}, {1, 1}}}, h.Cells)
	require.Equal(t, "step      1\nlayers.0  ░█\nlayers.1  ░\nloss       █\n", h.Text(80))
	require.Equal(t, []string{"rank 0", "rank 1"}, twoSteps.ByRank().Rows)
	require.Equal(t, []string{"layers.1.b"}, twoSteps.ByCall("*.b").Rows)
	require.Contains(t, h.SVG(), "step 2, layers.0: 2 of 2 differ")
}

// Of two ranks the one that had run less when it first differed comes first.
func TestFirstOfSpread(t *testing.T) {
	f := twoSteps.First()
	require.Equal(t, 1, f.Step)
	require.Equal(t, SpreadCall{"layers.0.a", 1, 1, 2}, f.SpreadCall)
	require.Nil(t, (&Spread{Steps: []SpreadStep{{1, []SpreadCall{{"a", 0, 0, 1}}}}}).First())
}

// Steps that do not fit are joined, and none is lost.
func TestNarrowHeat(t *testing.T) {
	s := &Spread{}
	for i := range 100 {
		s.Steps = append(s.Steps, SpreadStep{i + 1, []SpreadCall{{"a", 0, i % 2, 1}}})
	}
	joined, each := s.ByPart().narrow(37)
	require.Equal(t, 3, each)
	require.Equal(t, []Cell{{1, 3}, {2, 3}, {1, 3}}, joined.Cells[0][:3])
	text := s.ByPart().Text(40)
	require.Contains(t, text, "a character is 3 steps")
	for _, line := range strings.Split(text, "\n") {
		require.LessOrEqual(t, len([]rune(line)), 40)
	}
}
