package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Span is a range of steps or ranks, both ends in.
type Span struct{ Lo, Hi int }

// Set is a union of spans; empty means everything.
type Set []Span

// Has tells whether i is in the set.
func (s Set) Has(i int) bool {
	for _, r := range s {
		if r.Lo <= i && i <= r.Hi {
			return true
		}
	}
	return len(s) == 0
}

// Within tells whether every part of the set has a number from lo to hi.
func (s Set) Within(lo, hi int) bool {
	return !slices.ContainsFunc(s, func(part Span) bool { return part.Lo > hi || part.Hi < lo })
}

// First is the smallest member, or 0 for everything.
func (s Set) First() int {
	if len(s) == 0 {
		return 0
	}
	lo := s[0].Lo
	for _, r := range s {
		lo = min(lo, r.Lo)
	}
	return lo
}

// Last is the largest member, or the largest number for everything.
func (s Set) Last() int {
	if len(s) == 0 {
		return math.MaxInt
	}
	hi := s[0].Hi
	for _, r := range s {
		hi = max(hi, r.Hi)
	}
	return hi
}

// ParseSet reads a list such as 0,3,8-15 or 20-.
func ParseSet(text string) (Set, error) {
	var s Set
	if text == "" {
		return nil, nil
	}
	for _, part := range strings.Split(text, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := math.MaxInt, error(nil)
		if hi != "" || !isRange { // 3- has no end
			b, err2 = strconv.Atoi(hi)
		}
		if err1 != nil || err2 != nil || a < 0 || b < a {
			return nil, fmt.Errorf("%q: must be a list of numbers and ranges such as 0,3,8-15", text)
		}
		s = append(s, Span{a, b})
	}
	return s, nil
}

// normal is the set with its spans in order, as few as they can be.
func (s Set) normal() Set {
	spans := slices.SortedFunc(slices.Values(s), func(a, b Span) int { return cmp.Compare(a.Lo, b.Lo) })
	out := spans[:0]
	for _, r := range spans {
		if n := len(out); n > 0 && r.Lo-1 <= out[n-1].Hi {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

// String is what ParseSet reads, of a set in its normal form.
func (s Set) String() string {
	parts := make([]string, len(s))
	for i, r := range s {
		switch {
		case r.Hi == math.MaxInt:
			parts[i] = fmt.Sprintf("%d-", r.Lo)
		case r.Hi > r.Lo:
			parts[i] = fmt.Sprintf("%d-%d", r.Lo, r.Hi)
		default:
			parts[i] = strconv.Itoa(r.Lo)
		}
	}
	return strings.Join(parts, ",")
}
