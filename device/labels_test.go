package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A label is the prefix with the number, made beforehand or not.
func TestLabels(t *testing.T) {
	l := NewLabels("chunk.")
	for i, want := range map[int]string{0: "chunk.0", 63: "chunk.63", 64: "chunk.64", 1000: "chunk.1000"} {
		require.Equal(t, want, l.At(i))
	}
	require.Zero(t, testing.AllocsPerRun(10, func() { l.At(63) }))
}
