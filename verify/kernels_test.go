package verify

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
)

// Every kernel has the same bytes however it is run, and one in which a thread sees something else is found out, with the Call. Kernels that no
// run has are those that only show or send something, and those of faults.
func TestKernels(t *testing.T) {
	cells, err := Kernels(nil, func() {})
	require.NoError(t, err)
	ran := map[string]bool{}
	for _, c := range cells {
		require.True(t, c.OK, "%s: %v", c.Name, c.Why)
		ran[c.Name] = true
	}
	require.True(t, ran["control: matmul.wgrad by arrival"])
	var missing []string
	for _, name := range declaredKernels(t) {
		if !ran[name] && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	require.Equal(t, strings.Fields("cast iterator keep load module recompute recv sampler seed send state value"), missing)
}

// declaredKernels are the names of all kernels in the source.
func declaredKernels(t *testing.T) (names []string) {
	declared := regexp.MustCompile(`Kernel\{\s*Name: "([^"]+)"`)
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		return err
	}))
	require.Greater(t, len(names), 80)
	return names
}

// A fault in one Call, on several threads only, is found, and no other kernel is blamed.
func TestKernelsFindAFault(t *testing.T) {
	all := shaken
	defer func() { shaken = all }()
	shaken = shaken[7:8]
	s := &shaker{spoil: func(c *device.Call, trial int) {
		if x := c.Out[0].Tensor; c.ID.Path == "layers.3.mlp.w1.dx" && trial == 2 {
			x.Set(3, x.Value(3)+1)
		}
	}}
	cells, err := kernelsOf(s, nil, func() {})
	require.NoError(t, err)
	for _, c := range cells {
		if c.Name == "matmul" {
			require.Contains(t, *c.Why, "bwd layers.3.mlp.w1.dx on 3 threads, operands 6 elements further: y[3] is ")
			continue
		}
		require.True(t, c.OK, "%s: %v", c.Name, c.Why)
	}
}
