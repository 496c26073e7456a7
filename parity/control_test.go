package parity

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
	"firstbit/model"
)

// One element of any weight, moved by a millionth of the tensor's largest, is seen in float64.
func TestParityNegativeControlWeights(t *testing.T) {
	for _, r := range references {
		want := r.want(t)
		m := r.open(t, lowp.FP64)
		for n, p := range m.Params() {
			w := p.W.F64()
			largest, at := 0.0, 0
			for i, g := range want[2+n].values { // where the loss depends on it most
				largest = max(largest, math.Abs(w[i]))
				if math.Abs(g) > math.Abs(want[2+n].values[at]) {
					at = i
				}
			}
			keep := w[at]
			w[at] += 1e-6 * largest
			bad := worst(compare(t, r.got(t, m), want))
			w[at] = keep
			require.Greater(t, bad.err, within64, "%s: %s moved and nothing saw it", r.name, p.Name)
		}
		require.LessOrEqual(t, worst(compare(t, r.got(t, m), want)).err, within64, "the weights are back")
	}
}

// A constant that is off is seen, in float64 and in float32.
func TestParityNegativeControlConstants(t *testing.T) {
	for _, r := range references {
		for _, c := range []struct {
			name string
			edit func(*model.Model)
		}{
			{"eps", func(m *model.Model) {
				for _, b := range m.Blocks {
					b.Norm.Eps *= 100
				}
			}},
			{"scaling", func(m *model.Model) {
				for _, x := range m.Routers() {
					x.Scaling *= 1.001
				}
			}},
			{"expert bias", func(m *model.Model) {
				for _, x := range m.Routers() {
					for i := range x.Bias.Len() {
						x.Bias.Set(i, 0)
					}
				}
			}},
		} {
			for _, f := range []lowp.Format{lowp.FP64, lowp.FP32} {
				m := r.open(t, f)
				c.edit(m)
				require.Greater(t, worst(compare(t, r.got(t, m), r.want(t))).err, within32, "%s: %s in %s", r.name, c.name, f)
			}
		}
	}
}

// The comparison sees a value that is no number, and one sign.
func TestParityNegativeControlValues(t *testing.T) {
	want := []tensor{{"x", []int{2}, []float64{1, -2}}, {"y", []int{1}, []float64{1}}}
	bad := func(x float64) float64 {
		return worst(compare(t, []tensor{{"x", []int{2}, []float64{1, x}}, want[1]}, want)).err
	}
	require.Zero(t, bad(-2))
	require.Equal(t, 2.0, bad(2))
	require.True(t, math.IsNaN(bad(math.NaN())))
	require.False(t, bad(math.NaN()) <= within32)
}
