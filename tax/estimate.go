package tax

import (
	"math"
	"slices"
	"time"
)

// Estimate is how much longer one thing takes than another, in percent.
type Estimate struct {
	Percent float64 `json:"percent"` // the median over pairs of time ÷ time − 1
	Lower   float64 `json:"lower_95"`
	Upper   float64 `json:"upper_95"`
}

// leastPairs is the number of pairs from which the median has an interval of 95 %.
const leastPairs = 6

// estimate is the median of the ratios, with the interval in which that of all pairs lies with at least 95 %, whatever their distribution.
//
// Source: the sign test: of n independent values, as many lie below the median of their distribution as heads fall in n throws of a coin. So it
// lies between the k-th smallest and the k-th largest, k being the largest with P(fewer than k heads) ≤ 2.5 %.
func estimate(ratios []float64) Estimate {
	sorted := slices.Sorted(slices.Values(ratios))
	n := len(sorted)
	k := rankOf(n)
	percent := func(ratio float64) float64 { return 100 * (ratio - 1) }
	return Estimate{percent(float64((sorted[(n-1)/2] + sorted[n/2]) / 2)), percent(sorted[k-1]), percent(sorted[n-k])}
}

// rankOf is the k of estimate, at least 1.
func rankOf(n int) int {
	p := math.Pow(0.5, float64(n)) // of exactly so many heads
	below := 0.0
	for k := range n {
		if below += p; below > 0.025 {
			return max(k, 1)
		}
		p *= float64(n-k) / float64(k+1)
	}
	return 1
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// ratios are those of each of a's durations to b's.
func ratios(a, b []time.Duration) []float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = float64(a[i]) / float64(b[i])
	}
	return r
}
