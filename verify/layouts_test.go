package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/tune"
)

func TestLayouts(t *testing.T) {
	cells, one, err := Layouts(tune.Canonical, nil)
	require.NoError(t, err)
	require.Len(t, cells, 24)
	require.Len(t, one, 32)
	for _, c := range cells {
		t.Log(c)
		require.True(t, c.OK , "%s: %s", c.Name, c.Why)
	}
}
