package trace

import (
	"slices"
	"sort"

	"firstbit/device"
)

// memory is who wrote last where. It finds what digests cannot show: a destination that nobody may read yet, bits that happen to be equal,
// and by whom a tensor was overwritten.
//
// Addresses are keys here and reach no record. Storage that the collector gives away is written again before it is read.
type memory struct {
	spans []span         // sorted, without overlaps
	wrote map[string]int // by producer: when it wrote last
	now   int
	step  int
}

type span struct {
	lo, hi uintptr
	by     string
	at     int
}

// enter forgets everything where steps are left out: what was written there was not seen.
func (m *memory) enter(step int) {
	if m.wrote == nil || step != m.step && step != m.step+1 {
		m.spans, m.wrote = m.spans[:0], map[string]int{}
	}
	m.step = step
}

// write notes that a Call wrote a tensor.
func (m *memory) write(t *device.Tensor, by string) {
	lo, hi := t.Span()
	if lo == hi || by == "" {
		return
	}
	m.now++
	m.wrote[by] = m.now
	s := span{lo, hi, by, m.now}
	i, j := m.overlap(lo, hi)
	if j == i+1 && m.spans[i].lo == lo && m.spans[i].hi == hi {
		m.spans[i] = s
		return
	}
	put := []span{s}
	if i < j {
		if first := m.spans[i]; first.lo < lo {
			first.hi = lo
			put = []span{first, s}
		}
		if last := m.spans[j-1]; last.hi > hi {
			last.lo = hi
			put = append(put, last)
		}
	}
	m.spans = slices.Replace(m.spans, i, j, put...)
}

// overlap is the spans that have a byte of a range.
func (m *memory) overlap(lo, hi uintptr) (i, j int) {
	i = sort.Search(len(m.spans), func(i int) bool { return m.spans[i].hi > lo })
	j = i
	for j < len(m.spans) && m.spans[j].lo < hi {
		j++
	}
	return i, j
}

// over names who wrote to a tensor's memory after its producer; empty: nobody did that was seen.
func (m *memory) over(t *device.Tensor) string {
	lo, hi := t.Span()
	since, seen := m.wrote[t.From]
	if lo == hi || !seen {
		return ""
	}
	last := span{at: since}
	i, j := m.overlap(lo, hi)
	for _, s := range m.spans[i:j] {
		if s.by != t.From && s.at > last.at {
			last = s
		}
	}
	return last.by
}

// shares tells whether two tensors have memory in common.
func shares(t, u *device.Tensor) bool {
	a, b := t.Span()
	c, d := u.Span()
	return a < d && c < b && a < b && c < d
}
