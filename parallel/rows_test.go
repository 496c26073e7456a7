package parallel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/reduce"
)

// grid is a world whose tp groups are some of the ranks each.
func grid(tp, dp int) *World { return NewWorld(Layout{TP: tp, DP: dp}, 4) }

// counts are numbers of rows as a tensor.
func counts(n ...int) *device.Tensor {
	t := device.NewTensor(lowp.INT32, len(n))
	for i, v := range n {
		t.I32()[i] = int32(v)
	}
	return t
}

// A member alone gets back what it brings, and no Call is made.
func TestAlone(t *testing.T) {
	calls := 0
	count := func(next device.Runner) device.Runner { return func(c *device.Call) { calls++; next(c) } }
	for _, m := range []Member{{}, NewWorld(Layout{DP: 1}, 1).Rank(0).DP(), grid(1, 2).Rank(0).TP(), Rank{}.All()} {
		dev := device.New(device.Options{}, count)
		x, n := device.NewTensor(lowp.FP32, 6, 2), device.NewTensor(lowp.INT32, 3)
		for _, y := range []*device.Tensor{m.AllReduce(dev, "a", x), m.Gather(dev, "a", x, 2),
			m.Scatter(dev, "a", x, 3, lowp.BF16), m.Slice(dev, "a", x, 1), m.Largest(dev, "a", x), m.AllToAll(dev, "a", x, counts(6), counts(6))} {
			require.Same(t, x, y)
		}
		for i := range x.F32() {
			x.F32()[i] = float32(i)
		}
		require.Equal(t, x.F32(), m.ReduceScatter(dev, "a", alone(x)).F32())
		require.Equal(t, x.F32(), gather(m, dev, "a", x, 12).F32())
		m.SumCounts(dev, "a", n)
		require.Panics(t, func() { m.Send(dev, "a", 0, x) })
	}
	require.Zero(t, calls)
}

// rowOf is where row r of member i's part lies in the whole of outer blocks.
func rowOf(i, r, outer, members, part int) int {
	per := part / outer
	return (r/per*members+i)*per + r%per
}

// What is gathered is each member's rows in their places; slicing it again gives them back.
func TestGatherAndSlice(t *testing.T) {
	for _, shape := range [][]int{{6, 3}, {12}, {3, 2, 5}, {0, 4}} {
		for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64, lowp.INT32} {
			for _, outer := range []int{1, 2, 3} {
				w := grid(4, 2)
				require.NoError(t, simulateIn(t, w, func(r Rank, dev *device.Device) error {
					m := r.TP()
					x := device.NewTensor(f, shape...)
					for i := range x.Len() {
						x.Set(i, float64(30*r.Index+i))
					}
					y := m.Gather(dev, "y", x, outer)
					part, d := rows(x), width(x)
					if rows(y) != 4*part || width(y) != d {
						return fmt.Errorf("shape %v of %v", y.Shape(), x.Shape())
					}
					for i := range 4 {
						for row := range part {
							for e := range d {
								at := rowOf(i, row, outer, 4, part)*d + e
								if want := float64(30*m.Ranks[i] + row*d + e); y.Value(at) != want {
									return fmt.Errorf("element %d is %g: must be %g", at, y.Value(at), want)
								}
							}
						}
					}
					z := m.Slice(dev, "z", y, outer)
					for i := range x.Len() {
						if z.Bits(i) != x.Bits(i) {
							return fmt.Errorf("element %d of the slice is %g", i, z.Value(i))
						}
					}
					return nil
				}), "%v outer %d", shape, outer)
			}
		}
	}
}

// Scattering fp32 partial sums is, for each row, the definition's sum in the plan's order and format, rounded to the output's format: over
// groups that are some of the ranks, however the rows interleave.
func TestScatterIsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	moved, rounded := 0, 0
	for _, members := range []int{2, 3, 4, 8} {
		for _, outer := range []int{1, 2, 5} {
			for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64} {
				accs := []string{"fp32", "bf16"}
				for _, c := range choices(r, accs...) {
					if c.order == "arrival" {
						continue
					}
					per, d := 1+r.IntN(3), 1+r.IntN(3)
					in := make([]*device.Tensor, 2*members)
					out := make([]*device.Tensor, 2*members)
					seed := r.Uint64()
					require.NoError(t, simulateIn(t, grid(members, 2), func(r Rank, dev *device.Device) error {
						x := device.NewTensor(nn.MasterFormat(f), outer*members*per, d)
						fillRandom(rand.New(rand.NewPCG(seed, uint64(r.Index))), x)
						in[r.Index], out[r.Index] = x, r.TP().Scatter(dev, "y", x, outer, f)
						return nil
					}, planned(c.plan())))
					acc, err := lowp.Parse(c.acc)
					require.NoError(t, err)
					for rank, y := range out {
						require.Equal(t, []int{outer * per, d}, y.Shape())
						require.Equal(t, f, y.Format)
						group := rank / members * members
						owner := rank - group
						for e := range y.Len() {
							row := rowOf(owner, e/d, outer, members, outer*per)
							x := make([]float64, members)
							for i := range x {
								x[i] = in[group+i].Value(row*d + e%d)
							}
							tree := c.ownerTree(e, y.Len(), owner, members, 4)
							want := defined(tree, x, acc, f)
							require.Equal(t, want, y.Value(e), "%s: %d members, %d blocks, %s: element %d of rank %d", c.plan(), members, outer, f, e, rank)
							if want != defined(reduce.Seq.Tree(members), x, acc, f) {
								moved++
							}
							if f == lowp.BF16 && want != defined(tree, x, lowp.FP32, f) {
								rounded++
							}
						}
					}
				}
			}
		}
	}
	require.Greater(t, moved, 300, "the order must matter")
	require.Greater(t, rounded, 100, "and where it rounds")
}

// ownerTree is the order for element e of n that a scatter leaves with an owner.
func (c choice) ownerTree(e, n, owner, members, node int) reduce.Tree {
	channel, _, _ := partOf(e, n, c.channels)
	switch c.order {
	case "ring":
		ring := c.ringOf(channel, members)
		at := 0
		for ring[at] != owner {
			at++
		}
		return aroundRing(ring, at+1)
	case "symmetric":
		return aroundRing(c.ringOf(-1, members), owner)
	}
	return c.elsewhere("", channel, members, node)
}

// The fast plan rounds every hop to the format of the output; the fixed and the canonical one once, on output.
func TestScatterRoundsAsThePlanSays(t *testing.T) {
	for plan, want := range map[string]float64{"fast": 256, "fixed": 258, "canonical": 258} {
		require.NoError(t, simulateIn(t, grid(4, 2), func(r Rank, dev *device.Device) error {
			x := device.NewTensor(lowp.FP32, 4, 1)
			for i := range x.F32() {
				x.F32()[i] = []float32{256, 0.75, 0.75, 0.75}[(r.Index+3-i)%4] // 256 comes first in the owner's ring
			}
			if y := r.TP().Scatter(dev, "y", x, 1, lowp.BF16); y.Value(0) != want {
				return fmt.Errorf("%q: %g", plan, y.Value(0))
			}
			return nil
		}, func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				switch plan {
				case "fast":
					c.Plan = c.Kernel.Fast
				case "canonical":
					c.Plan, _ = c.Plan.With(c.Kernel.Canonical)
				}
				next(c)
			}
		}), plan)
	}
}

// The largest is the same whoever has it; NaN comes through, and +0 is larger than −0.
func TestLargest(t *testing.T) {
	negative, nan := math.Copysign(0, -1), math.NaN()
	columns := [][]float64{{1, 2, 3}, {3, 2, 1}, {-5, math.Inf(-1), -7}, {math.Inf(1), 0, 1}, {negative, negative, negative}, {0, negative, negative}, {negative, 0, negative}, {1, nan, 2}, {2, 1, nan}}
	want := []float64{3, 3, -5, math.Inf(1), negative, 0, 0, nan, nan}
	for _, f := range []lowp.Format{lowp.FP32, lowp.FP64, lowp.BF16} {
		require.NoError(t, simulateIn(t, grid(3, 2), func(r Rank, dev *device.Device) error {
			x, w := device.NewTensor(f, 3, 3), device.NewTensor(f, 3, 3)
			for i := range columns {
				x.Set(i, columns[i][r.TP().Index])
				w.Set(i, want[i])
			}
			y := r.TP().Largest(dev, "y", x)
			for i := range columns {
				if y.Bits(i) != w.Bits(i) {
					return fmt.Errorf("column %d is %g", i, y.Value(i))
				}
			}
			return nil
		}))
	}
}

// Rows of every number, none included, go where they are sent, and lie by sender.
func TestAllToAll(t *testing.T) {
	const n = 4
	sent := func(step, from, to int) int { return (step*(from+2*to) + from*to) % 3 }
	for _, d := range []int{0, 3} { // rows of one element each, as a vector, and of three
		w := NewWorld(Layout{TP: 1, DP: 8, EP: n}, 4)
		require.NoError(t, simulateIn(t, w, func(r Rank, dev *device.Device) error {
			m := r.EP()
			for step := range 6 {
				dev.At(step, 0, device.Fwd)
				var send, receive []int
				rows := 0
				for i := range n {
					send, receive = append(send, sent(step, m.Index, i)), append(receive, sent(step, i, m.Index))
					rows += send[i]
				}
				shape, per := []int{rows, d}, d
				if d == 0 {
					shape, per = shape[:1], 1
				}
				x := device.NewTensor(lowp.BF16, shape...)
				at := 0
				for to, k := range send {
					for j := range k * per {
						x.Set(at, float64(64*m.Index+16*to+j))
						at++
					}
				}
				y := m.AllToAll(dev, "y", x, counts(send...), counts(receive...))
				at = 0
				for from, k := range receive {
					for j := range k * per {
						if want := float64(64*from + 16*m.Index + j); y.Value(at) != want {
							return fmt.Errorf("step %d: element %d is %g: must be %g", step, at, y.Value(at), want)
						}
						at++
					}
				}
				if y.Len() != at || len(y.Shape()) != len(shape) {
					return fmt.Errorf("step %d: shape %v", step, y.Shape())
				}
			}
			return nil
		}))
	}
}

func TestAllToAllWhoseMembersDoNotExpectEachOther(t *testing.T) {
	run := func(change func(rank int, send, receive []int) int) error {
		return simulate(t, 3, 4, func(r Rank, dev *device.Device) error {
			send, receive := []int{1, 1, 1}, []int{1, 1, 1}
			r.DP().AllToAll(dev, "x", device.NewTensor(lowp.FP32, change(r.Index, send, receive), 2), counts(send...), counts(receive...))
			return nil
		})
	}
	require.NoError(t, run(func(_ int, _, _ []int) int { return 3 }))
	for range repeats() {
		require.EqualError(t, run(func(rank int, _, receive []int) int {
			if rank == 2 {
				receive[1] = 4
			}
			return 3
		}), "parallel: ranks of group dp meet in different calls: rank 1 in opt x (all_to_all) of step 1 microbatch 0 sends 1 rows to rank 2, which expects 4")
		require.EqualError(t, run(func(rank int, _, _ []int) int { return 3 + rank }),
			"parallel: ranks of group dp meet in different calls: rank 1 in opt x (all_to_all) of step 1 microbatch 0 brings 4 rows and sends 3")
	}
}

// Masking ranks recovers the plan's tree for every row that a scatter leaves with every member of every group, where the groups are some of
// the ranks: those beside each other (tp), and those apart (dp).
func TestRevealRecoversTheTreesOfScatters(t *testing.T) {
	const per, d = 2, 3
	axes := map[string]func(r Rank) Member{"tp": Rank.TP, "cp": Rank.CP, "data": Rank.Data, "experts": Rank.Experts, "edp": Rank.EDP}
	for _, l := range []Layout{{TP: 4, DP: 2}, {TP: 2, CP: 3, DP: 2, EP: 2}, {TP: 3, DP: 5, PP: 2, EP: 3}} {
		for axis, member := range axes { // each by itself
			w := NewWorld(l, 2)
			ranks := member(w.Rank(0)).Size()
			if ranks == 1 {
				continue
			}
			node := 1 // members apart lie on other nodes
			if first := member(w.Rank(0)).Ranks; first[1] == first[0]+1 {
				node = 2
			}
			for _, order := range []string{"ring", "nccltree", "symmetric", "seq", "pairwise"} {
				for outer := 1; outer <= 2; outer++ {
					c := choice{order, []string{"fp32", "bf16"}[outer-1], 1 + len(order)%3, 1 + len(axis)%2}
					acc, err := lowp.Parse(c.acc)
					require.NoError(t, err)
					questions := questionsTo(t, ranks, acc)
					answers := make([][]*device.Tensor, w.World())
					require.NoError(t, simulateIn(t, NewWorld(l, 2), func(r Rank, dev *device.Device) error {
						x := device.NewTensor(lowp.FP32, outer*per*ranks, d)
						for i, q := range questions {
							dev.At(i+1, 0, device.Fwd)
							for e := range x.F32() {
								x.F32()[e] = q[member(r).Index]
							}
							y := device.NewTensor(acc, outer*per*d)
							y.CopyFrom(member(r).Scatter(dev, "y", x, outer, acc))
							answers[r.Index] = append(answers[r.Index], y)
						}
						return nil
					}, planned(c.plan())))
					for r := range answers {
						for e, tree := range treesFrom(t, c.plan(), ranks, acc, questions, answers[r]) {
							want := c.ownerTree(e, outer*per*d, member(w.Rank(r)).Index, ranks, node)
							require.True(t, want.Equal(tree), "%s over %s of %s: element %d of rank %d is %s: must be %s", c.plan(), axis, l, e, r, tree, want)
						}
					}
				}
			}
		}
	}
}
