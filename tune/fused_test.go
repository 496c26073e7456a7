package tune

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/reduce"
)

// Products are fused, and what else a kernel has to choose stays as the fixed recipe has it.
func TestFused(t *testing.T) {
	tuner := &Tuner{Recipe: Fused, plans: map[sharded]reduce.Plan{}}
	k := &device.Kernel{Name: "k", Fixed: reduce.MustPlan("k:splitk(4)/bf16; rows:seq/fp32; tie=low"), Products: []string{"k"}}
	for range 2 { // the second time it is known
		require.Equal(t, "k:splitk(4)/bf16/fma; rows:seq/fp32; tie=low", tuner.fused(k).String())
	}
	k = &device.Kernel{Name: "k", Fixed: k.Fixed, Products: []string{"columns"}}
	require.Panics(t, func() { tuner.fused(k) }, "a declaration of what is not there")
}
