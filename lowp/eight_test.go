package lowp

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var eight = []Format{E4M3, E5M2, E2M1, E8M0}

// change is the first float32 bits from which on ml_dtypes has a code.
type change struct{ from, code uint32 }

// readTable reads parity/testdata/lowprecision, which parity/lowprecision.py writes.
func readTable(t testing.TB, f Format, what, layout string) (rows [][2]uint32) {
	text, err := os.ReadFile("../parity/testdata/lowprecision/" + f.String() + what)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var r [2]uint32
		_, err := fmt.Sscanf(line, layout, &r[0], &r[1])
		require.NoError(t, err, line)
		rows = append(rows, r)
	}
	return rows
}

func changes(t testing.TB, f Format) (c []change) {
	for _, r := range readTable(t, f, ".codes", "%x %x") {
		c = append(c, change{r[0], r[1]})
	}
	return c
}

func TestEveryCodeIsMlDtypesValue(t *testing.T) {
	for _, f := range eight {
		rows := readTable(t, f, ".values", "%x %x")
		require.Len(t, rows, 1<<f.Bits())
		for _, r := range rows {
			want, got := math.Float32frombits(r[1]), f.Decode(r[0])
			if want != want {
				require.True(t, got != got, "%v code %02x", f, r[0])
				require.EqualValues(t, f.NaN(), f.Encode(got), "%v code %02x", f, r[0])
				require.EqualValues(t, f.NaN(), f.Overflow(got), "%v code %02x", f, r[0])
				continue
			}
			require.Equal(t, r[1], math.Float32bits(got), "%v code %02x", f, r[0])
			require.Equal(t, r[0], f.Overflow(got), "%v code %02x", f, r[0])
			if !math.IsInf(float64(got), 0) {
				require.Equal(t, r[0], f.Encode(got), "%v code %02x", f, r[0])
			}
		}
	}
}

// special tells what becomes of x where we and ml_dtypes part by intent: it has no code for the NaN
// of e2m1 and gives a zero; in e8m0 it gives NaN for zeros and past the largest value, and rounds subnormals up. A NaN keeps its sign and payload there.
func special(f Format, x float32) (code uint32, ok bool) {
	switch {
	case f == E2M1 && x != x:
		return 7, true
	case f == E8M0 && x >= 0 && x < 0x1.8p-127:
		return 0, true
	case f == E8M0 && x >= 0x1.8p127:
		return 0xfe, true
	case (f == E4M3 || f == E5M2) && x != x:
		return uint32(f.NaN()), true
	}
	return 0, false
}

// differs tells whether the conversions of x are not what ml_dtypes' code says.
func differs(f Format, x float32, code uint32, encode func(float32) uint32) bool {
	overflow, saturated := code, code
	if c, ok := special(f, x); ok {
		overflow, saturated = c, c
	} else {
		saturated = saturate(f, code)
		if v := f.Decode(code); v != v {
			overflow = uint32(f.NaN()) // its sign is that of what overflowed
		}
	}
	r := math.Float32bits(f.Round(x))
	if x != x && f != E2M1 {
		r = math.Float32bits(f.Decode(saturated)) // a payload, which Round does not keep
	}
	return encode(x) != saturated || f.Overflow(x) != overflow || r != math.Float32bits(f.Decode(saturated))
}

// saturate is the largest value's code for that of ∞, or of e4m3's NaN.
func saturate(f Format, code uint32) uint32 {
	if v := f.Decode(code); f == E8M0 || v == v && !math.IsInf(float64(v), 0) {
		return code
	}
	return code>>7<<7 | map[Format]uint32{E4M3: 0x7e, E5M2: 0x7b}[f]
}

// disagreements goes through float32 with a stride, every bf16, and both ends of every stretch of one code.
func disagreements(table []change, f Format, stride uint64, encode func(float32) uint32) (n int, first string) {
	see := func(b, code uint32) {
		if differs(f, math.Float32frombits(b), code, encode) {
			if n++; n == 1 {
				first = fmt.Sprintf("%v of %08x is %02x, want %02x", f, b, encode(math.Float32frombits(b)), code)
			}
		}
	}
	for i, c := range table {
		end := uint64(1) << 32
		if i+1 < len(table) {
			end = uint64(table[i+1].from)
		}
		see(c.from, c.code)
		see(uint32(end-1), c.code)
		for b := (uint64(c.from) + stride - 1) / stride * stride; b < end; b += stride {
			see(uint32(b), c.code)
		}
		for b := (uint64(c.from) + 0xffff) &^ 0xffff; b < end; b += 1 << 16 {
			see(uint32(b), c.code)
		}
	}
	return n, first
}

// Every float32 with -exhaustive: a minute.
func TestEncodeIsMlDtypes(t *testing.T) {
	stride := uint64(4099)
	if *exhaustive {
		stride = 1
	}
	for _, f := range eight {
		n, first := disagreements(changes(t, f), f, stride, f.Encode)
		require.Zero(t, n, first)
	}
}

func TestEncodeIsMlDtypesNegativeControl(t *testing.T) {
	for _, f := range eight {
		table := changes(t, f)
		for i := 1; i < len(table); i++ { // one float32 further, for each code in turn
			if _, ok := special(f, math.Float32frombits(table[i].from)); ok {
				continue
			}
			table[i].from++
			n, _ := disagreements(table[i-1:][:2], f, 1<<40, f.Encode)
			require.Positive(t, n, "%v %02x", f, table[i].code)
			table[i].from--
		}
		truncated := func(x float32) uint32 {
			c := f.Encode(x)
			if v := f.Decode(c); v == v && math.Abs(float64(v)) > math.Abs(float64(x)) && c > 0 {
				c--
			}
			return c
		}
		n, _ := disagreements(table, f, 1<<20, truncated)
		require.Positive(t, n, f)
	}
	n, _ := disagreements(changes(t, E4M3), E4M3, 1<<20, E4M3.Overflow)
	require.Positive(t, n, "what does not saturate")
}

// docs/facts.md, Low precision: the ties of e2m1, and what the others do at their ends.
func TestKnownConversions(t *testing.T) {
	inf, nan, negzero := float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))
	for _, k := range []struct {
		f       Format
		x, want float32
	}{
		{E2M1, 0.25, 0}, {E2M1, 0.75, 1}, {E2M1, 1.25, 1}, {E2M1, 1.75, 2}, {E2M1, 2.5, 2}, {E2M1, 3.5, 4}, {E2M1, 5, 4}, {E2M1, 5.1, 6},
		{E2M1, math.Nextafter32(0.25, 1), 0.5}, {E2M1, math.Nextafter32(0.75, 0), 0.5}, {E2M1, -3.5, -4}, {E2M1, 7, 6}, {E2M1, -inf, -6}, {E2M1, nan, 6},
		{E4M3, 448, 448}, {E4M3, 464, 448}, {E4M3, 465, 448}, {E4M3, -1e30, -448}, {E4M3, inf, 448}, {E4M3, 0x1p-10, 0}, {E4M3, 0x1.8p-9, 0x1p-8},
		{E5M2, 57344, 57344}, {E5M2, 61440, 57344}, {E5M2, -inf, -57344}, {E5M2, 0x1p-17, 0}, {E5M2, 1.125, 1}, {E5M2, 1.375, 1.5},
		{E8M0, 1, 1}, {E8M0, 1.5, 2}, {E8M0, 0, 0x1p-127}, {E8M0, inf, 0x1p127},
	} {
		require.Equal(t, k.want, k.f.Round(k.x), "%v of %v", k.f, k.x)
	}
	for _, f := range []Format{E4M3, E5M2, E2M1} {
		require.Equal(t, uint32(1)<<(f.Bits()-1), f.Encode(negzero), "−0 is a code")
		require.Equal(t, uint32(1)<<31, math.Float32bits(f.Round(-0x1p-20)))
	}
	require.EqualValues(t, 0x7f, E4M3.Overflow(465), "what does not saturate is NaN")
	require.EqualValues(t, 0x7e, E4M3.Overflow(464))
	require.EqualValues(t, 0xfc, E5M2.Overflow(-61440), "or −∞")
	require.EqualValues(t, 0x7, E2M1.Overflow(100))
	for _, k := range []struct {
		x    float32
		code uint8
	}{
		{0, 0}, {nan, 0xff}, {inf, 0xfe}, {1, 127}, {math.Nextafter32(1, 2), 128}, {math.Nextafter32(1, 0), 127}, {math.MaxFloat32, 0xfe},
		{0x1p-127, 0}, {math.Nextafter32(0x1p-127, 1), 1}, {0x1p-126, 1}, {0x1p-149, 0}, {-3, 129},
	} {
		require.Equal(t, k.code, PowerUp(k.x), "PowerUp %v", k.x)
	}
}

// Every power up is the least code whose value is not below, and the code below it is below.
func TestPowerUpIsTheLeastCodeNotBelow(t *testing.T) {
	for b := uint64(1); b < 0x7f000000; b += 4099 {
		x := math.Float32frombits(uint32(b))
		c := PowerUp(x)
		if E8M0.Decode(uint32(c)) < x || c > 0 && E8M0.Decode(uint32(c)-1) >= x {
			t.Fatalf("%08x: %02x", b, c)
		}
	}
}

func TestScaledIsEncodeAndDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	x := make([]float32, 1<<14)
	for i := range x {
		x[i] = math.Float32frombits(r.Uint32())
		if i%2 == 0 { // most numbers lie outside the formats' ranges
			x[i] = float32(math.Ldexp(r.Float64()-0.5, r.IntN(40)-25))
		}
	}
	each := make([]float32, len(x))
	for _, f := range []Format{E4M3, E5M2, E2M1} {
		for _, s := range []float32{1, 0x1p-3, 1.7, 0x1p-127, math.MaxFloat32} {
			scaled := make([]float32, len(x))
			for i, v := range x {
				scaled[i], each[i] = v*s, s
				if v != v {
					scaled[i] = float32(math.NaN()) // as arithmetic makes them, they differ between processors
				}
			}
			codes := make([]byte, len(x)*f.Bits()/8)
			f.EncodeScaled(codes, x, s)
			require.True(t, bytes.Equal(f.AppendBytes(nil, scaled), codes), "%v %v", f, s)
			scaled[0] = -1 - scaled[0]
			require.False(t, bytes.Equal(f.AppendBytes(nil, scaled), codes), "negative control")
			y := make([]float32, len(x))
			f.DecodeScaled(y, codes, s)
			want := f.FromBytes(codes)
			for i := range want {
				want[i] *= s
			}
			same := func() {
				for i := range want {
					require.Equal(t, math.Float32bits(want[i]), math.Float32bits(y[i]), "%v of %v", f, x[i])
				}
			}
			same()
			if f.Bits() == 8 {
				other := make([]byte, len(codes))
				f.EncodeEach(other, x, each)
				require.True(t, bytes.Equal(codes, other), f)
				f.DecodeEach(y, codes, each)
				same()
			}
		}
	}
	require.Panics(t, func() { BF16.EncodeScaled(nil, nil, 1) })
	require.Panics(t, func() { E8M0.EncodeScaled(nil, nil, 1) })
}

func TestBytesOfSmallFormats(t *testing.T) {
	require.Equal(t, []byte{9, 0x38, 0xc0}, E4M3.AppendBytes([]byte{9}, []float32{1, -2}))
	require.Equal(t, []byte{9, 0xc2, 0x07}, E2M1.AppendBytes([]byte{9}, []float32{1, -2, 6}), "low nibble first")
	require.Equal(t, []float32{1, -2, 6, 0}, E2M1.FromBytes([]byte{0xc2, 0x07}))
	require.Equal(t, []byte{127, 0}, E8M0.AppendBytes(nil, []float32{1, 0}))
	require.Equal(t, []float32{1, 0x1p-127}, E8M0.FromBytes([]byte{127, 0}))
	// docs/facts.md, Fingerprints: int8 [−128], int [−3,−2,−1,0], and codes of e4m3 and of packed e2m1.
	for _, c := range []struct {
		b    []byte
		want uint64
	}{
		{nil, 0}, {[]byte{0x80}, 0xffffffffffffff80}, {[]byte{0xfd, 0xfe, 0xff, 0}, 0xfffffffffffffffc},
		{E4M3.AppendBytes(nil, []float32{1, -2}), 0xfffffffffffffff8}, {E2M1.AppendBytes(nil, []float32{1, -2}), 0xffffffffffffffc2},
	} {
		require.Equal(t, c.want, XORCodes(c.b))
	}
	for _, c := range []struct {
		f    Format
		a, b float32
		want uint64
	}{{E4M3, 1, 1.125, 1}, {E4M3, -0x1p-9, 0x1p-9, 3}, {E5M2, 1, 2, 4}, {E2M1, -6, 6, 15}, {E8M0, 0x1p-127, 0x1p127, 254}} {
		require.Equal(t, c.want, c.f.Ulps(c.a, c.b), "%v %v %v", c.f, c.a, c.b)
	}
}

// The conversion of slices, in stretches of 2¹⁶ float32, those where a code begins among them: all with -exhaustive, which takes a minute.
func TestSlicesAreMlDtypes(t *testing.T) {
	step := uint64(1021)
	if *exhaustive {
		step = 1
	}
	x, codes := make([]float32, 1<<16), make([]byte, 1<<16)
	for _, f := range []Format{E4M3, E5M2, E2M1} {
		table := append(changes(t, f), change{from: math.MaxUint32})
		highs := map[uint64]bool{}
		for _, c := range table { // where a code begins, and what is before
			highs[uint64(c.from>>16)], highs[uint64(max(c.from, 1)-1)>>16] = true, true
		}
		for high := range uint64(1 << 16) {
			if high%step != 0 && !highs[high] {
				continue
			}
			for i := range x {
				x[i] = math.Float32frombits(uint32(high<<16) + uint32(i))
			}
			f.EncodeScaled(codes, x, 1)
			if i, ok := firstUnlike(f, table, uint32(high<<16), codes); !ok {
				t.Fatalf("%v: %08x is not as ml_dtypes says", f, uint32(high<<16)+uint32(i))
			}
		}
		x[5] = 1
		f.EncodeScaled(codes, x, 1)
		_, ok := firstUnlike(f, table, 0xffff0000, codes)
		require.False(t, ok, "negative control")
	}
}

// firstUnlike is the first of 2¹⁶ float32 from base on whose code is not the table's, where there is one.
func firstUnlike(f Format, table []change, base uint32, codes []byte) (int, bool) {
	nan := f.Encode(float32(math.NaN()))
	at := 0
	want := saturate(f, table[0].code)
	for i := range 1 << 16 {
		b := base + uint32(i)
		for at+1 < len(table)-1 && table[at+1].from <= b {
			at++
			want = saturate(f, table[at].code)
		}
		got := uint32(codes[i])
		if f == E2M1 {
			got = uint32(codes[i/2]) >> (i % 2 * 4) & 15
		}
		if b&magnitude > infinite && got != nan || b&magnitude <= infinite && got != want {
			return i, false
		}
	}
	return 0, true
}
