package experiments

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/run"
)

// A story leaves nothing in the temporary directory, wherever it is in its course.
func TestAnInterruptEndsAStory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	c, err := Find("step-counter") // it saves, continues and localises
	require.NoError(t, err)
	for _, after := range []int{0, 2} {
		interrupt, told := make(chan struct{}), 0
		_, err := c.Until(interrupt).Reproduce(func(string) {
			if told++; told == after+1 {
				close(interrupt)
			}
		})
		require.ErrorAs(t, err, new(*run.Interrupted))
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
