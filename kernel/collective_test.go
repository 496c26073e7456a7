package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/kernel/check"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

// algorithms are how a message is cut and in what order each piece is added, as a collective would.
var algorithms = []string{"ring", "ring, a permutation for each channel", "nccltree", "nccltree over nodes of 4", "symmetric", "seq", "pairwise", "reverse", "lanes(4)", "perm(3)"}

type spanOrder struct {
	Span
	order reduce.Order
}

func spansOf(algorithm string, p Partition) []spanOrder {
	kind, spans := algorithm, p.Ring()
	var at func(Span) reduce.Context
	switch algorithm {
	case "ring, a permutation for each channel":
		kind = "ring"
		at = func(x Span) reduce.Context {
			return reduce.Context{Part: x.Part, Ring: reduce.Permutation(uint64(x.Channel+2), p.Ranks)}
		}
	case "nccltree", "nccltree over nodes of 4":
		kind, spans = "nccltree", p.Tree()
		at = func(x Span) reduce.Context { return reduce.Context{Part: x.Part} }
		if algorithm != kind {
			at = func(x Span) reduce.Context { return reduce.Context{Part: x.Part, Node: 4} }
		}
	case "symmetric":
		spans = p.Owners()
		fallthrough
	default:
		at = func(x Span) reduce.Context { return reduce.Context{Part: x.Part} }
	}
	var all []spanOrder
	order := reduce.MustOrder(kind)
	for _, x := range spans {
		all = append(all, spanOrder{x, order.Resolve(at(x), p.Ranks)})
	}
	return all
}

func piecesOf[T libm.Float](dst []T, spans []spanOrder, ranks int, acc lowp.Format) []Piece[T] {
	var pieces []Piece[T]
	for _, x := range spans {
		pieces = append(pieces, Piece[T]{dst[x.Lo:x.Hi], x.Lo, Fold{Program: x.order.Program(ranks), Acc: acc}})
	}
	return pieces
}

func randomMembers[T libm.Float](r *rand.Rand, ranks, n int) [][]T {
	in := make([][]T, ranks)
	for m := range in {
		in[m] = make([]T, n)
		for i := range in[m] {
			in[m][i] = T(r.NormFloat64() * math.Exp2(float64(r.IntN(9))))
		}
	}
	return in
}

// The definition: Run for each element, by the fold of its piece, and in float32 the tree.
func TestReduceMembersIsItsDefinition(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(11, 1))
	for ranks := 1; ranks <= 33; ranks++ {
		for _, algorithm := range algorithms {
			for _, channels := range []int{1, 2, 5} {
				n := []int{0, 1, ranks - 1, 3*ranks + 1, 217}[r.IntN(5)]
				p := Partition{Elements: n, Ranks: ranks, Channels: channels, Unit: []int{0, 4}[r.IntN(2)]}
				spans := spansOf(algorithm, p)
				for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
					checkMembers[float32](t, r, algorithm, p, spans, acc)
				}
				checkMembers[float64](t, r, algorithm, p, spans, lowp.BF16)
			}
		}
	}
	// Enough for several processors and tiles, with vectors and without.
	defer func(v bool) { vectorised = v }(vectorised)
	for _, procs := range []int{1, 2, 3} {
		runtime.GOMAXPROCS(procs)
		vectorised = vectorised && procs < 3
		for _, algorithm := range algorithms {
			p := Partition{Elements: 5003, Ranks: 40, Channels: 3}
			checkMembers[float32](t, r, algorithm, p, spansOf(algorithm, p), lowp.FP32)
			checkMembers[float32](t, r, algorithm, p, spansOf(algorithm, p), lowp.BF16)
		}
	}
}

func checkMembers[T libm.Float](t *testing.T, r *rand.Rand, algorithm string, p Partition, spans []spanOrder, acc lowp.Format) {
	t.Helper()
	in := randomMembers[T](r, p.Ranks, p.Elements)
	got, one := make([]T, p.Elements), make([]T, p.Elements)
	pieces := piecesOf(got, spans, p.Ranks, acc)
	ReduceMembers(pieces, in)
	seen := 0
	for i, x := range spans {
		require.Equal(t, seen, x.Lo, "%s %+v: pieces follow one another", algorithm, p)
		seen = x.Hi
		SumMembers(pieces[i].Fold, one[x.Lo:x.Hi], in, x.Lo)
		for e := x.Lo; e < x.Hi; e++ {
			want := Run(pieces[i].Fold, func(m int) T { return in[m][e] })
			if bitsOf(want) != bitsOf(got[e]) || bitsOf(want) != bitsOf(one[e]) {
				t.Fatalf("%s %+v %s element %d of %+v: %v together, %v alone, not %v", algorithm, p, acc, e, x.Span, got[e], one[e], want)
			}
		}
	}
	require.Equal(t, p.Elements, seen, "%s %+v: all elements", algorithm, p)
	ReduceMembers(piecesOf(in[p.Ranks-1], spans, p.Ranks, acc), in) // in place
	require.Equal(t, got, in[p.Ranks-1], "%s %+v: in place", algorithm, p)
}

// Pieces need not follow one another, nor share an order or a format.
func TestPiecesOfAnySort(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	for range 300 {
		ranks, n := 1+r.IntN(9), 40
		in, dst := randomMembers[float32](r, ranks, n), make([]float32, n)
		var pieces []Piece[float32]
		for lo := 0; lo < n; {
			lo += r.IntN(2) * r.IntN(4) // a gap
			hi := min(lo+r.IntN(6), n)
			order := reduce.Given(reduce.Permutation(r.Uint64(), ranks))
			if r.IntN(3) > 0 {
				order = reduce.MustOrder([]string{fmt.Sprintf("ring(%d)", r.IntN(ranks)), "seq", "pairwise", "nccltree(0)"}[r.IntN(4)])
			}
			if lo < hi {
				pieces = append(pieces, Piece[float32]{dst[lo:hi], lo, Fold{Program: order.Program(ranks), Acc: []lowp.Format{lowp.FP32, lowp.BF16}[r.IntN(2)]}})
			}
			lo = hi
		}
		r.Shuffle(len(pieces)*r.IntN(2), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		ReduceMembers(pieces, in)
		for _, p := range pieces {
			for i, got := range p.Dst {
				want := Run(p.Fold, func(m int) float32 { return in[m][p.At+i] })
				require.Equal(t, math.Float32bits(want), math.Float32bits(got))
			}
		}
	}
}

func bitsOf[T libm.Float](x T) uint64 {
	if x, ok := any(x).(float32); ok {
		return uint64(math.Float32bits(x))
	}
	return math.Float64bits(float64(x))
}

// Asked as a black box, an element of every chunk, owner and tree is added as its order says.
func TestCollectivesAddByTheirOrder(t *testing.T) {
	for _, algorithm := range algorithms {
		for ranks := 2; ranks <= 33; ranks++ {
			p := Partition{Elements: 2*ranks + 1, Ranks: ranks, Channels: 2}
			if algorithm == "symmetric" || algorithm == "ring" {
				p.Elements, p.Channels = ranks, 1 // chunks of one element: Reveal asks often
			}
			spans := spansOf(algorithm, p)
			in, dst := randomMembers[float32](rand.New(rand.NewPCG(5, 5)), ranks, p.Elements), make([]float32, p.Elements)
			pieces := piecesOf(dst, spans, ranks, lowp.FP32)
			parts := map[int]bool{}
			for _, x := range spans {
				if parts[x.Part] || len(parts) > 0 && x.order.Program(ranks) == pieces[0].Fold.Program {
					continue
				}
				parts[x.Part] = true
				check.Order(t, fmt.Sprintf("%s, element %d of %d ranks", algorithm, x.Lo, ranks), ranks, x.order.Tree(ranks), lowp.FP32, func(v []float32) float32 {
					for m := range in {
						in[m][x.Lo] = v[m]
					}
					ReduceMembers(pieces, in)
					return dst[x.Lo]
				})
			}
			switch algorithm {
			case "ring", "symmetric":
				require.Len(t, parts, ranks)
			case "nccltree":
				require.Len(t, parts, 2)
			}
		}
	}
	// The negative control: the neighbour's chunk is another tree.
	spans := spansOf("ring", Partition{Elements: 4, Ranks: 4, Channels: 1})
	require.False(t, spans[0].order.Tree(4).Equal(spans[1].order.Tree(4)))
}

// docs/facts.md, Collectives, through the kernel: a bf16 ring rounds at every hop.
func TestEveryHopIsRounded(t *testing.T) {
	x := []float32{256, 1, 1, 1, -256, 1, 1, 1}
	n := len(x)
	in := make([][]float32, n)
	for m := range in {
		in[m] = slices.Repeat(x[m:m+1], n)
	}
	for algorithm, want := range map[string][]float32{
		"ring": {6, 6, 6, 6, 4, 5, 2, 3}, "nccltree": {6, 6, 6, 6, 6, 6, 6, 6}, "seq": {3, 3, 3, 3, 3, 3, 3, 3}, "symmetric": {3, 6, 6, 6, 6, 4, 5, 2},
	} {
		p := Partition{Elements: n, Ranks: n, Channels: 1}
		dst := make([]float32, n)
		ReduceMembers(piecesOf(dst, spansOf(algorithm, p), n, lowp.BF16), in)
		require.Equal(t, want, dst, algorithm)
		ReduceMembers(piecesOf(dst, spansOf(algorithm, p), n, lowp.FP32), in)
		require.Equal(t, slices.Repeat([]float32{6}, n), dst, "wider, nothing is lost")
	}
}

// Vectors add and round as plain Go does: every length, number of rows, start, and bits that are no numbers.
func TestLeavesOnVectors(t *testing.T) {
	if !vectorised {
		t.Skip("no vectors here")
	}
	defer func() { vectorised = true }()
	r := rand.New(rand.NewPCG(8, 9))
	anyBits := func(n int) []float32 {
		x := check.Random(r, n)
		for i := range x {
			switch r.IntN(4) {
			case 0:
				x[i] = math.Float32frombits(r.Uint32())
			case 1:
				x[i] = math.Float32frombits([]uint32{0, 1 << 31, 0x7f800000, 0xff800000, 0x7fc00001, 0xff800001, 0x7f7fffff, 1, 0x3f808000, 0x3f818000}[r.IntN(10)])
			}
		}
		return x
	}
	for _, acc := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP16} {
		for n := range 150 {
			for _, to := range []how{extend, begin, join} {
				k, lo := 1+r.IntN(rowsAtOnce), r.IntN(9)
				rows := make([][]float32, k)
				for i := range rows {
					rows[i] = anyBits(lo + n)
				}
				start := anyBits(n)
				acc.RoundSlice(start)
				var got [2][]float32
				for i := range got {
					vectorised = i == 0
					got[i] = slices.Clone(start)
					addLeaves(Fold{Acc: acc}, got[i], make([]float32, n), rows, lo, to)
					for j, v := range got[i] {
						if v != v && acc == lowp.FP32 { // which of two NaNs stays is the compiler's choice
							got[i][j] = float32(math.NaN())
						}
					}
				}
				check.SameBits(t, got[1], got[0], "%s, %d rows of %d, how %d", acc, k, n, to)
			}
		}
	}
}

func TestCutIsEven(t *testing.T) {
	for _, unit := range []int{0, 1, 4, 8} {
		for n := range 70 {
			for k := 1; k < 12; k++ {
				at, least, most := 0, n, 0
				for i := range k {
					lo, hi := Cut(n, k, i, unit)
					require.Equal(t, at, lo)
					require.LessOrEqual(t, lo, hi)
					require.True(t, lo == n || lo%max(unit, 1) == 0, "parts begin at whole units")
					at, least, most = hi, min(least, hi-lo), max(most, hi-lo)
				}
				require.Equal(t, n, at)
				require.LessOrEqual(t, most-least, max(unit, 1), "%d in %d parts of units of %d", n, k, unit)
			}
		}
	}
}

func TestPartitions(t *testing.T) {
	require.Equal(t, []Span{{0, 1, 0, 1}, {1, 2, 0, 3}, {2, 3, 1, 1}, {3, 4, 1, 2}, {4, 5, 1, 3}}, Partition{Elements: 5, Ranks: 4, Channels: 2}.Ring())
	require.Equal(t, []Span{{0, 4, 0, 0}, {4, 8, 1, 0}, {8, 12, 2, 1}}, Partition{Elements: 12, Ranks: 4, Channels: 3}.Tree())
	require.Equal(t, []Span{{0, 12, 0, 0}}, Partition{Elements: 12, Ranks: 4, Channels: 1}.Tree())
	require.Equal(t, []Span{{0, 4, 0, 0}, {4, 8, 0, 1}, {8, 10, 0, 2}}, Partition{Elements: 10, Ranks: 3, Channels: 7, Unit: 4}.Owners())
	require.Empty(t, Partition{Ranks: 4, Channels: 2}.Ring())
	require.Empty(t, Partition{Ranks: 4, Channels: 2}.Tree())
	for channels := 1; channels < 9; channels++ { // half of them each
		second := 0
		for c := range channels {
			second += TreeOf(c, channels)
		}
		require.Equal(t, channels/2, second)
	}
}

func TestReduceMembersRefuses(t *testing.T) {
	in := [][]float32{{1, 2}, {3}}
	require.Panics(t, func() { SumMembers(inOrder(2), make([]float32, 2), in, 0) }, "a short member")
	require.Panics(t, func() { SumMembers(inOrder(3), make([]float32, 1), in, 0) }, "a fold over three")
	none := []float32{7}
	SumMembers(inOrder(0), none, nil, 0)
	require.True(t, none[0] == 0 && math.Signbit(float64(none[0])), "the sum of no members is −0")
}

// A switch that adds in fp64 and rounds once gives 2 for every order of 1e8, 1, −1e8, 1, whose sums in fp32 are 0, 1 or 2; by chains
// and by trees, and beside the narrow sum of the same message.
func TestSwitchesThatAddWide(t *testing.T) {
	var orders []string
	for i := range 4 * 4 * 4 * 4 {
		if p := []int{i / 64, i / 16 % 4, i / 4 % 4, i % 4}; len(slices.Compact(slices.Sorted(slices.Values(p)))) == 4 {
			orders = append(orders, reduce.Given(p).String())
		}
	}
	require.Len(t, orders, 24)
	orders = append(orders, "seq", "reverse", "pairwise", "lanes(2)", "ring(1)", "nccltree(1)", "tree((0 1 (2 3)))")
	in := [][]float32{{1e8, 1}, {1, 2}, {-1e8, 3}, {1, 4}}
	narrow := map[float32]bool{}
	for _, o := range orders {
		var wide, plain [2]float32
		f := FoldOf(reduce.Reduction{Name: "ranks", Order: reduce.MustOrder(o), Formats: reduce.Formats{Acc: lowp.FP64}}, 4)
		SumMembers(f, wide[:], in, 0)
		require.Equal(t, [2]float32{2, 10}, wide, o)
		f.Acc = lowp.FP32
		SumMembers(f, plain[:], in, 0)
		narrow[plain[0]] = true
	}
	require.Greater(t, len(narrow), 2, "negative control")
	// Pieces of one message, each with an accumulator of its own.
	var both [4]float32
	two := [][]float32{{1e8, 1, 1e8, 1}, {1, 2, 1, 2}, {-1e8, 3, -1e8, 3}, {1, 4, 1, 4}}
	seq := Fold{Program: reduce.Seq.Program(4)}
	wide := seq
	wide.Acc = lowp.FP64
	ReduceMembers([]Piece[float32]{{both[:2], 0, seq}, {both[2:], 2, wide}}, two)
	require.Equal(t, [4]float32{1, 10, 2, 10}, both)
}
