package lowp

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var vectors = flag.String("vectors", "../parity/testdata/tensorcores", "fused sums that parity/tensorcores.py wrote")

// fusedSum is one line of what parity/tensorcores.py writes.
type fusedSum struct {
	mma          *MMA
	c, want      uint32
	a, b, sa, sb []float32
}

func codes(text string, f Format) (x []float32, err error) {
	if text == "-" {
		return nil, nil
	}
	digits := f.Bits() / 4
	for ; len(text) >= digits; text = text[digits:] {
		c, err := strconv.ParseUint(text[:digits], 16, 32)
		if err != nil {
			return nil, err
		}
		x = append(x, f.Decode(uint32(c)))
	}
	return x, nil
}

func parseFusedSum(t testing.TB, line string) (s fusedSum) {
	w := strings.Fields(line)
	require.Len(t, w, 11, line)
	format := func(name string) Format {
		if name == "tf32" || name == "-" {
			return FP32
		}
		f, err := Parse(name)
		require.NoError(t, err, line)
		return f
	}
	var err error
	s.mma, err = MMAOf(w[0], Operands{format(w[1]), format(w[2]), format(w[3])}, format(w[4]))
	require.NoError(t, err, line)
	read := func(text string, f Format) []float32 {
		x, err := codes(text, f)
		require.NoError(t, err, line)
		return x
	}
	s.a, s.b, s.sa, s.sb = read(w[6], s.mma.A), read(w[7], s.mma.B), read(w[8], s.mma.Scale), read(w[9], s.mma.Scale)
	_, err = fmt.Sscanf(w[5]+" "+w[10], "%x %x", &s.c, &s.want)
	require.NoError(t, err, line)
	return s
}

// code is what the accumulator holds, NaN by its very bits.
func (s fusedSum) code(x float32) uint32 {
	if s.mma.Out == FP32 {
		return math.Float32bits(x)
	}
	if x != x {
		return math.Float32bits(x) >> 13 & 0x7fff
	}
	return FP16.Encode(x)
}

func TestFusedSumsOfTensorCores(t *testing.T) {
	file, err := os.Open(*vectors)
	require.NoError(t, err)
	defer file.Close()
	kinds, n := map[string]int{}, 0
	lines := bufio.NewScanner(file)
	for ; lines.Scan(); n++ {
		s := parseFusedSum(t, lines.Text())
		c := s.mma.Out.Decode(s.c)
		got := s.code(s.mma.Sum(c, s.a, s.b, s.sa, s.sb))
		require.Equal(t, s.want, got, "%08x instead of %08x: %s", got, s.want, lines.Text())
		kinds[s.mma.Arch+" "+s.mma.Input+" "+s.mma.Out.String()]++
	}
	require.NoError(t, lines.Err())
	require.Len(t, kinds, 31)
	t.Logf("%d sums, %d kinds", n, len(kinds))
}

// Over all gaps between an accumulator and a product, an addend keeps its bits down to Fraction below the larger exponent, toward zero.
func TestFusedSumsOverAllGaps(t *testing.T) {
	for _, arch := range MMAArchs {
		for _, in := range mmaInputs {
			m, err := MMAOf(arch, in.Operands, FP32)
			if err != nil {
				continue
			}
			scale := []float32{1}
			for gap := -140; gap <= 140; gap++ {
				for _, sign := range []float64{1, -1} {
					c := float32(math.Ldexp(sign*0x1.fffffep0, gap))
					got := m.Sum(c, []float32{1.5}, []float32{-1}, scale, scale) // 1.5 is a value of every format
					require.Equal(t, cutSum(m, float64(c), -1.5, gap), got, "%s %s: %g - 1.5", arch, in.name, c)
				}
			}
		}
	}
}

// cutSum is c + p, where c has the exponent gap and p the exponent 0, by float64: 53 bits hold what stays of both.
func cutSum(m *MMA, c, p float64, gap int) float32 {
	unit := math.Ldexp(1, max(gap, 0)-m.Fraction)
	cut := func(x float64) float64 { return math.Trunc(x/unit) * unit }
	s := cut(c) + cut(p)
	_, e := math.Frexp(s)
	last := math.Ldexp(1, max(e-1, -126)-m.Kept)
	return float32(math.Trunc(s/last)*last) + 0 // not −0
}

func TestArchitecturesRefuseWhatTheyLack(t *testing.T) {
	for _, c := range []struct {
		arch  string
		o     Operands
		out   Format
		error string
	}{
		{"volta", Operands{A: BF16, B: BF16}, FP32, "the tensor cores of volta do not multiply bf16: they have fp16"},
		{"hopper", Operands{E4M3, E4M3, E8M0}, FP32, "the tensor cores of hopper do not multiply mxfp8: they have fp16, bf16, tf32, fp8"},
		{"turing", Operands{A: BF16, B: FP32}, FP32, "the tensor cores of turing do not multiply tf32: they have fp16"},
		{"hopper", Operands{A: E4M3, B: BF16}, FP32, "the tensor cores of hopper do not multiply e4m3·bf16: they have fp16, bf16, tf32, fp8"},
		{"hopper", Operands{A: BF16, B: BF16}, FP16, "the tensor cores of hopper add products of bf16 up in fp32, not in fp16"},
		{"ada", Operands{A: E4M3, B: E5M2}, BF16, "the tensor cores of ada add products of fp8 up in fp32 or fp16, not in bf16"},
		{"hoper", Operands{A: E4M3, B: E5M2}, FP32, `architecture "hoper": did you mean hopper? must be one of volta, turing, ampere, ada, hopper, blackwell`},
	} {
		_, err := MMAOf(c.arch, c.o, c.out)
		require.EqualError(t, err, c.error)
	}
}
