package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The output in the page is what the file prints, and the file stays what it promises to be.
func TestOutput(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = write
	main()
	os.Stdout = stdout
	require.NoError(t, write.Close())
	printed, err := io.ReadAll(read)
	require.NoError(t, err)
	page, err := os.ReadFile("../onefile.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "$ go run ./docs/onefile\n"+string(printed)+"```")
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(source), "\n"), 250)
}

// A fixed order gives one trace, arrival another.
func TestFixedOrderRepeats(t *testing.T) {
	a, b := train(fixed), train(fixed)
	require.Equal(t, a.trace, b.trace)
	require.NotEqual(t, a.trace, train(arrival(1)).trace)
}
