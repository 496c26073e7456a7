package reduce

import (
	"math"
	"slices"
	"strings"

	"firstbit/libm"
	"firstbit/lowp"
)

// Adder is how a node of a tree adds its kids. Only the first one rounds at each addition; what the others do with three
// values or more is no tree of roundings, so such a node stands as it is in trees and drawings: exact(0 1 2).
type Adder uint8

// The adders.
const (
	Rounded  Adder = iota // two kids: one rounded addition; more: a fused adder, see Tree.Sum
	Exact                 // the exact sum, rounded once: the same bits in any order
	Binned                // the leading bits of every value, added exactly and rounded once: the same bits in any order
	Kahan                 // in order, the error of each addition carried into the next
	Neumaier              // in order, the errors of all additions added up apart and added at the end
	adders
)

var adderNames = [adders]string{"", "exact", "binned", "kahan", "neumaier"}

// String is the word before the node's parenthesis.
func (a Adder) String() string { return adderNames[a] }

// Describe says in a sentence what the adder does.
func (a Adder) Describe() string {
	return [adders]string{
		"each addition is rounded",
		"no order: every value enters an accumulator wide enough for the exact sum, which is rounded once",
		"no order: the leading bits of every value are added exactly, and rounded once",
		"no tree of roundings: in order, the rounding error of each addition is subtracted from the next value",
		"no tree of roundings: in order, the rounding errors of all additions are added up apart, and added at the end",
	}[a]
}

// AnyOrder tells whether the bits are the same in whatever order the values come.
func (a Adder) AnyOrder() bool { return a == Exact || a == Binned }

func adderOf(name string) (Adder, bool) {
	i := slices.Index(adderNames[:], name)
	return Adder(max(i, 0)), i >= 0
}

// ulps bounds what the adder itself adds to the error, in roundings of Σ|x|; Kahan and Neumaier to first order (Higham 2002, §4.3).
func (a Adder) ulps(kids int) int {
	switch {
	case a == Exact:
		return 1
	case a != Rounded:
		return 2
	case kids > 2:
		return kids
	}
	return 1
}

// AddBy adds values by an adder: partial sums of acc, which the values are of; in float64 acc is ignored. No values are −0.
func AddBy[T libm.Float](a Adder, x []T, acc lowp.Format) T {
	switch x := any(x).(type) {
	case []float32:
		return T(addBy32(a, x, acc))
	case []float64:
		return T(addBy64(a, x))
	}
	panic("reduce: a type of float of another name")
}

func addBy32(a Adder, x []float32, acc lowp.Format) float32 {
	round := func(v float32) float32 { return acc.Round(v) }
	switch {
	case len(x) == 0:
		return float32(math.Copysign(0, -1))
	case len(x) == 1:
		return x[0]
	case a == Exact:
		return exact32(x, acc)
	case a == Binned:
		return binned32(x, acc)
	case a == Kahan:
		return kahan(x, round)
	case a == Neumaier:
		return neumaier(x, round)
	case len(x) == 2:
		return round(x[0] + x[1])
	}
	return roundOnce(fusedSum(x), acc)
}

// addBy64 is for references: what is order-free is exact there.
func addBy64(a Adder, x []float64) float64 {
	plain := func(v float64) float64 { return v }
	switch a {
	case Exact, Binned:
		return exact64(x)
	case Kahan:
		return kahan(x, plain)
	case Neumaier:
		return neumaier(x, plain)
	}
	sum := math.Copysign(0, -1)
	for _, v := range x {
		sum += v
	}
	return sum
}

// kahan is compensated summation.
//
//	y = x − c ; t = s + y ; c = (t − s) − y ; s = t
//
// Source: Kahan 1965, "Further remarks on reducing truncation errors".
func kahan[T libm.Float](x []T, round func(T) T) T {
	s, c := T(math.Copysign(0, -1)), T(0)
	for _, v := range x {
		y := round(v - c)
		t := round(s + y)
		c = round(round(t-s) - y)
		s = t
	}
	return s
}

// neumaier adds up apart what each addition loses of the smaller of its two addends.
//
//	t = s + x ; c += |s| ≥ |x| ? (s − t) + x : (x − t) + s ; s = t
//
// What is lost of a sum that has become infinite or NaN is nothing.
//
// Source: Neumaier 1974, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen".
func neumaier[T libm.Float](x []T, round func(T) T) T {
	s, c := T(math.Copysign(0, -1)), T(0)
	for _, v := range x {
		t := round(s + v)
		large, small := s, v
		if math.Abs(float64(v)) > math.Abs(float64(s)) {
			large, small = v, s
		}
		c = round(c + round(round(large-t)+small))
		s = t
	}
	if c == 0 || c != c || math.IsInf(float64(s), 0) {
		return s
	}
	return round(s + c)
}

// adderPrefix reads the word of an adder before a parenthesis.
func adderPrefix(s string) (a Adder, length int, ok bool) {
	i := strings.IndexByte(s, '(')
	if i <= 0 {
		return Rounded, 0, false
	}
	a, ok = adderOf(s[:i])
	return a, i, ok
}
