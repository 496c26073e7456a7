package diff

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"firstbit/trace"
)

// Within is how far apart two runs may be.
type Within struct {
	Ulps uint64  // between elements
	Rtol float64 // of the largest magnitude in the tensor; 0: Ulps counts

	text string
}

// ParseWithin reads ulps=N or rtol=X.
func ParseWithin(text string) (*Within, error) {
	w := &Within{text: text}
	name, value, _ := strings.Cut(text, "=")
	var err error
	switch name {
	case "ulps":
		w.Ulps, err = strconv.ParseUint(value, 10, 63)
	case "rtol":
		if w.Rtol, err = strconv.ParseFloat(value, 64); err == nil && !(w.Rtol > 0 && w.Rtol < 1) {
			err = strconv.ErrRange
		}
	default:
		err = strconv.ErrSyntax
	}
	if err != nil {
		return nil, fmt.Errorf("%q: must be ulps=N, or rtol=X with X between 0 and 1", text)
	}
	return w, nil
}

// maxWhole bounds the elements that are put together.
const maxWhole = 1 << 26

// wholes compares two wholes by the bytes that were dumped of their pieces.
func (w *Within) wholes(x [2]*whole, side [2]*parts, dirs [2]string) distance {
	e, err := dtypeOf(x[0].dtype)
	if err != nil {
		return unknown
	}
	var codes [2][]uint64
	for i := range x {
		if codes[i], err = x[i].read(e, side[i], dirs[i]); err != nil {
			return unknown
		}
	}
	return w.codes(e, codes[0], codes[1])
}

// read puts the dumped pieces of a whole together; what other microbatches have is 0.
func (w *whole) read(e dtype, p *parts, dir string) ([]uint64, error) {
	n := w.args[0].sig.Place.Elements()
	if n > maxWhole {
		return nil, fmt.Errorf("%d elements: are more than %d", n, maxWhole)
	}
	bytes := make([][]byte, len(w.args)) // all of them, before memory is taken for the whole
	for i, a := range w.args {
		g := p.written(a)
		if g == nil || g.Dump == "" {
			return nil, fmt.Errorf("no bytes were dumped")
		}
		b, err := readDump(dir, *g)
		if err != nil {
			return nil, err
		}
		if g.Numel != a.sig.Numel || len(b) != e.size(g.Numel) {
			return nil, fmt.Errorf("has other bytes than its dtype")
		}
		bytes[i] = b
	}
	codes := make([]uint64, n)
	for i, a := range w.args {
		err := a.sig.Place.Runs(a.sig.Numel, func(from, to, n int) {
			for j := range n {
				codes[to+j] = e.at(bytes[i], from+j)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return codes, nil
}

// written is the output that an argument is or reads; nil: there is no record of it.
func (p *parts) written(a argument) *trace.Sig {
	r := &p.lanes[a.lane][a.at]
	for i := range r.Out {
		if &r.Out[i] == a.sig {
			return a.sig
		}
	}
	if a.sig.From == nil {
		return nil
	}
	i := p.find(a.lane, r, *a.sig.From)
	if i < 0 {
		return nil
	}
	out := p.lanes[a.lane][i].Out
	for j := range out {
		if out[j].Digest == a.sig.Digest {
			return &out[j]
		}
	}
	return nil
}

// codes compares two tensors element by element.
func (w *Within) codes(e dtype, a, b []uint64) distance {
	if len(a) != len(b) {
		return unknown
	}
	values := func(code uint64) float64 {
		switch {
		case !e.float:
			return float64(e.extended(code))
		case e.bits == 64:
			return math.Float64frombits(code)
		}
		return float64(e.format.Decode(uint32(code)))
	}
	largest := 0.0
	if e.float && w.Rtol > 0 {
		for i := range a {
			for _, v := range [2]float64{math.Abs(values(a[i])), math.Abs(values(b[i]))} {
				if v <= math.MaxFloat64 {
					largest = max(largest, v)
				}
			}
		}
	}
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		x, y := values(a[i]), values(b[i])
		switch {
		case !e.float || x-x != 0 || y-y != 0: // an integer, NaN or infinity has no rounding
			return far
		case w.Rtol > 0 && !(math.Abs(x-y) <= w.Rtol*largest):
			return far
		case w.Rtol == 0 && e.distance(a[i], b[i]) > w.Ulps:
			return far
		}
	}
	return near
}

// records compares what two records show that both runs have whole.
func (w *Within) records(a, b *trace.Record, dirs [2]string) distance {
	if a.Kind == "metric" && a.Value != nil && b.Value != nil {
		x, y := *a.Value, *b.Value
		if w.Rtol > 0 && math.Abs(x-y) <= w.Rtol*max(math.Abs(x), math.Abs(y)) {
			return near
		}
		if d, err := metricUlps(a.Bits, b.Bits); w.Rtol == 0 && err == nil && d <= w.Ulps {
			return near
		}
		return far
	}
	result := near
	for i := range a.Out {
		if i >= len(b.Out) || sigEqual(&a.Out[i], &b.Out[i]) {
			continue
		}
		g := [2]trace.Sig{a.Out[i], b.Out[i]}
		e, err := dtypeOf(g[0].Dtype)
		if err != nil {
			return unknown
		}
		var codes [2][]uint64
		for s := range g {
			var bytes []byte
			if g[s].Dump == "" {
				return unknown
			}
			if bytes, err = readDump(dirs[s], g[s]); err != nil || len(bytes) != e.size(g[s].Numel) {
				return unknown
			}
			for j := range g[s].Numel {
				codes[s] = append(codes[s], e.at(bytes, j))
			}
		}
		if d := w.codes(e, codes[0], codes[1]); d != near {
			result = d
		}
	}
	return result
}

// metricUlps is the distance of the bits of two metrics.
func metricUlps(a, b string) (uint64, error) {
	x, err := strconv.ParseUint(a, 16, 64)
	if err != nil {
		return 0, err
	}
	y, err := strconv.ParseUint(b, 16, 64)
	if err != nil || len(a) != len(b) {
		return 0, strconv.ErrSyntax
	}
	name := "fp32"
	if len(a) == 16 {
		name = "fp64"
	}
	e, err := dtypeOf(name)
	if err != nil {
		return 0, err
	}
	return e.distance(x, y), nil
}
