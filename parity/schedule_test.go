package parity

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/optim"
)

// How many ulps a rate may be from Megatron's, by the elementary function in it: Python's are not libm's, and 2·½ˣ−1 cancels.
var rateUlps = map[string]uint64{"cosine": 2, "exponential": 4}

// Learning rates are those of Megatron's formulas to the last bit, but for that of an elementary function.
func TestRatesAreMegatrons(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "schedule", "rates.json"))
	require.NoError(t, err)
	var cases []struct {
		Optim optim.Config
		Steps int
		Rates []string
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, 21)
	for _, c := range cases {
		shape, off := c.Optim.Decay, uint64(0)
		if shape == "wsd" {
			shape = c.Optim.WSDDecay
		}
		for i, hex := range c.Rates {
			want, err := strconv.ParseFloat(hex, 64)
			require.NoError(t, err)
			got := c.Optim.Rate(int64(i+1), c.Steps)
			if got != want {
				off = max(off, math.Float64bits(max(got, want))-math.Float64bits(min(got, want)))
			}
			other := c.Optim.Rate(int64(i+2), c.Steps) // the negative control: the position is off by one
			flat := i+1 >= c.Steps || c.Optim.Decay == "constant" && i+1 >= c.Optim.Warmup || c.Optim.Decay == "wsd" && i+1 >= c.Optim.Warmup && i+1 <= c.Steps-c.Optim.WSDSteps
			require.True(t, flat || other != want, "%+v at %d", c.Optim, i+1)
		}
		require.LessOrEqual(t, off, rateUlps[shape], "%+v", c.Optim)
	}
}
