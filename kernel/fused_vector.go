package kernel

import (
	"math"

	"firstbit/lowp"
)

// fusedLanes is the number of columns whose chains run side by side.
const fusedLanes = 8

// fusedConstants are what fused8 needs of an adder, each in every lane, in the order of scripts/asm/fused.go.
type fusedConstants [14][fusedLanes]uint32

func constantsOf(m *lowp.MMA) (k fusedConstants) {
	up := m.Fraction - m.AccPlaces()
	for i, v := range []int{magnitude, 1<<23 - 1, 1 << 23, 1, 127, max(up, 0), max(-up, 0), m.Kept + 1,
		m.Fraction - 126, m.Fraction + 95, 127 - m.Fraction, 1 << 31, 1<<16 - 1, int(math.Float32bits(1 << 16))} {
		for j := range k[i] {
			k[i][j] = uint32(v)
		}
	}
	return k
}

const magnitude = 1<<31 - 1

// inLanes tells whether the product can run in lanes: each product fits in a lane, and so do sums of half of them; chains meet by twos.
func (t *fused) inLanes() bool {
	return vectorised && !t.plain && t.f.simple() && t.f.MMA.Out == lowp.FP32 && t.f.MMA.Exact == 0 && t.n >= fusedLanes/2
}

// lay takes the operands apart for fused8: a by rows, b by panels of eight columns. Every chain is filled up with zeros to whole fused sums,
// which changes none: a product of two zeros has an exponent below every accumulator's.
func (t *fused) lay() {
	mma := t.f.MMA
	t.constants = constantsOf(mma)
	t.padded = 0
	for _, s := range t.f.Steps {
		if s.Join == 0 {
			t.padded += whole(s.Count, mma.Terms)
		}
	}
	// A product is shifted to count what an addend keeps; its factors share the shift, so that each fits in sixteen bits.
	shift := mma.Fraction - mma.Places()
	shiftA := min(shift, 14-mma.FractionOf(mma.A))
	t.layRows(&t.pa, mma.A, t.a, t.sa, t.m, 1, shiftA)
	t.layRows(&t.pb, mma.B, t.b.T(), t.sb, t.n, fusedLanes, shift-shiftA)
}

func whole(n, size int) int { return (n + size - 1) / size * size }

// layRows lays rows down, so many side by side.
func (t *fused) layRows(e *elements, f lowp.Format, a Mat[float32], s Scales, rows, beside, shift int) {
	mma := t.f.MMA
	n := whole(rows, beside) * t.padded
	e.sig, e.exp = grown(e.sig, n), grown(e.exp, n)
	for i := range n {
		e.sig[i], e.exp[i] = 0, -126
	}
	for i := range rows {
		at := i/beside*beside*t.padded + i%beside
		for _, step := range t.f.Steps {
			if step.Join > 0 {
				continue
			}
			for c := range step.Count {
				leaf := t.f.Leaf(step.Start + c*step.Stride)
				z, x := mma.Split(a.Data[i*a.Row+leaf*a.Col], f)
				if mma.Block > 0 {
					_, by := mma.SplitScale(s.at(i, leaf/mma.Block))
					x += by
				}
				// fits: sixteen bits; of a factor's lane the upper half is zero
				e.sig[at+c*beside], e.exp[at+c*beside] = int32(uint16(z<<shift)), int32(x)
			}
			at += whole(step.Count, mma.Terms) * beside
		}
	}
}

// runLanes computes rows lo to hi.
func (t *fused) runLanes(lo, hi int) {
	var buf [16][fusedLanes]float32
	for i := lo; i < hi; i++ {
		for j := 0; j < t.n; j += fusedLanes {
			sums, ok := t.lanes(i, j, buf[:0])
			for s := range min(fusedLanes, t.n-j) {
				if ok>>s&1 == 1 {
					t.c[i*t.ldc+j+s] = sums[s]
					continue
				}
				var stack [16]float32
				t.c[i*t.ldc+j+s] = t.element(i, j+s, stack[:0], true, groupSums{})
			}
		}
	}
}

// lanes is the stack machine on eight columns.
func (t *fused) lanes(i, j int, stack [][fusedLanes]float32) (sums [fusedLanes]float32, ok uint32) {
	ok = 1<<fusedLanes - 1
	if t.f.N == 0 {
		return sums, ok
	}
	at, b, terms := i*t.padded, j*t.padded, t.f.MMA.Terms
	for _, s := range t.f.Steps {
		if s.Join > 0 {
			top := len(stack) - 1
			for x := range stack[top] {
				stack[top-1][x] += stack[top][x]
			}
			stack = stack[:top]
			continue
		}
		stack = append(stack, [fusedLanes]float32{})
		ok &= fused8(&stack[len(stack)-1][0], &t.pa.sig[at], &t.pa.exp[at], &t.pb.sig[b], &t.pb.exp[b], (s.Count+terms-1)/terms, terms, &t.constants)
		n := whole(s.Count, terms)
		at, b = at+n, b+n*fusedLanes
	}
	return stack[0], ok
}
