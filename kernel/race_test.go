package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
	"firstbit/reduce"
)

// racing is a sum of n values of which so many contributions arrive, and threads share it.
func racing(t *testing.T, order string, n int, way Race) Fold {
	o, err := reduce.ParseOrder(order)
	require.NoError(t, err)
	turn, ok := o.InTurn()
	require.True(t, ok, order)
	f := FoldOf(reduce.Reduction{Order: turn}, n)
	f.Race = way
	return f
}

// Sums that threads share are right, of any shape, and in turn they have the bits of the sum in sequence.
func TestRacedProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][3]int{{64, 64, 512}, {7, 33, 2000}, {129, 50, 300}, {5, 7, 9000}} {
		m, n, k := shape[0], shape[1], shape[2]
		a, b := check.Random(r, k*m), check.Random(r, k*n)
		product := func(f Fold) []float32 {
			c := make([]float32, m*n)
			MatMul(c, n, RowMajor(a, m).T(), RowMajor(b, n), m, n, k, f)
			return c
		}
		for _, order := range []string{"splitk(8,arrival)", "splitk(3,arrival)", "lanes(8,arrival)"} {
			turn := racing(t, order, k, Drawn)
			want := product(turn)
			for _, way := range []Race{Atomic, Turns, Local, Steal} {
				f := racing(t, order, k, way)
				require.True(t, f.Raced(m*n/vectorLeast), "%v", shape)
				got := product(f)
				if way == Turns {
					check.SameBits(t, want, got, "%v by %s in turn", shape, order)
				}
				for i, v := range want {
					require.InDelta(t, v, got[i], 1e-5*math.Sqrt(float64(k))*8, "%v by %s, %s, element %d", shape, order, way, i)
				}
			}
		}
	}
}

func TestRacedRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const n, d = 700, 33
	x, index := check.Random(r, n*d), make([]int32, n)
	for i := range index {
		index[i] = int32(r.IntN(n))
	}
	for _, order := range []string{"splitk(8,arrival)", "arrival"} {
		for _, at := range [][]int32{nil, index} {
			want, got := make([]float32, d), make([]float32, d)
			SumRowsAt(racing(t, order, n, Drawn), want, x, d, at)
			for _, way := range []Race{Atomic, Turns, Local, Steal} {
				SumRowsAt(racing(t, order, n, way), got, x, d, at)
				if way == Turns && order != "arrival" {
					check.SameBits(t, want, got, "in turn")
				}
				for j, v := range want {
					require.InDelta(t, v, got[j], 1e-3, "%s, %s, column %d", order, way, j)
				}
			}
		}
	}
}

// Every row comes to its sum once, in float32 and float64, however many there are.
func TestRaceScatter(t *testing.T) {
	for _, n := range []int{0, 1, 2, 15, 16, 17, 1000, 9001} {
		for _, way := range []Race{Atomic, Turns, Local, Steal} {
			scatters[float32](t, n, way)
			scatters[float64](t, n, way)
		}
	}
}

func scatters[T float32 | float64](t *testing.T, n int, way Race) {
	dst, one := make([]T, 7*2), []T{1, 2}
	RaceScatter(way, dst, 2, n, func(i int) int { return i%8 - 1 }, func(int) []T { return one })
	for at := range 7 {
		want := T((n + 6 - at) / 8) // below 2²⁴, so exact
		require.Equal(t, []T{want, 2 * want}, dst[at*2:][:2], "%d rows, %s, %d", n, way, at)
	}
}

// Every task runs once, whichever thread takes it.
func TestDeal(t *testing.T) {
	for _, way := range []Race{Atomic, Steal} {
		for n := range 40 {
			ran, ended := make([]int, n), make([]int, Racers(n))
			Deal(way, n, func(_, task int) { ran[task]++ }, func(thread int) { ended[thread]++ })
			for task, times := range ran {
				require.Equal(t, 1, times, "task %d of %d, %s", task, n, way)
			}
			for thread, times := range ended {
				require.Equal(t, 1, times, "thread %d", thread)
			}
		}
	}
}
