package parallel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/kernel/check"
	"firstbit/lowp"
	"firstbit/reduce"
	"firstbit/rng"
)

// choice is a plan of a collective, as a test says it.
type choice struct {
	order    string // of the ranks
	acc      string // format of partial sums
	channels int
	ring     int
}

func (c choice) plan() string {
	return fmt.Sprintf("ranks:%s/%s; channels=%d; ring=%d", c.order, c.acc, c.channels, c.ring)
}

// partOf finds the part of n elements cut into k in which element e lies: part i ends before ⌊n·(i+1)/k⌋.
func partOf(e, n, k int) (part, lo, hi int) {
	for ; n*(part+1)/k <= e; part++ {
	}
	return part, n * part / k, n * (part + 1) / k
}

// tree is the definition of a sum over the ranks, for element e of n that an all-reduce makes.
func (c choice) tree(e, n, ranks, node int) reduce.Tree {
	channel, lo, hi := partOf(e, n, c.channels)
	switch c.order {
	case "ring":
		chunk, _, _ := partOf(e-lo, hi-lo, ranks)
		return aroundRing(c.ringOf(channel, ranks), chunk+1)
	case "symmetric":
		owner, _, _ := partOf(e, n, ranks)
		return aroundRing(c.ringOf(-1, ranks), owner)
	}
	return c.elsewhere("all", channel, ranks, node)
}

// shardTree is the same for element e of n that a reduce-scatter leaves with a rank.
func (c choice) shardTree(e, n, ranks, node int) reduce.Tree {
	owner := 0
	lo, hi := Shard(n, ranks, owner)
	for e >= hi {
		owner++
		lo, hi = Shard(n, ranks, owner)
	}
	channel, _, _ := partOf(e-lo, hi-lo, c.channels)
	switch c.order {
	case "ring": // ends with the owner, wherever that stands
		ring := c.ringOf(channel, ranks)
		at := 0
		for ring[at] != owner {
			at++
		}
		return aroundRing(ring, at+1)
	case "symmetric":
		return aroundRing(c.ringOf(-1, ranks), owner)
	}
	return c.elsewhere("shards", channel, ranks, node)
}

// elsewhere are the orders that no chunk of a channel changes.
func (c choice) elsewhere(scope string, channel, ranks, node int) reduce.Tree {
	if c.order == "nccltree" { // half of the channels use each tree
		return reduce.MustOrder(fmt.Sprintf("nccltree(%d,%d)", 2*channel/c.channels, node)).Tree(ranks)
	}
	name := "ranks"
	if c.order == "arrival" && channel > 0 { // every channel's chunk arrives by itself
		name = fmt.Sprintf("ranks.%d", channel)
	}
	arrival := func(n int) []int { // that of rank 0's Call
		id := device.ID{Step: 1, Phase: device.Opt}
		return device.Schedule{Seed: 5}.Arrival(rng.HashString("opt "+scope+"."+c.label()), id, name, n)
	}
	return reduce.MustOrder(c.order).Resolve(reduce.Context{Arrival: arrival}, ranks).Tree(ranks)
}

// ringOf lists the ranks as they stand in the ring of a channel.
func (c choice) ringOf(channel, ranks int) []int {
	if c.ring == 1 || channel < 0 {
		ring := make([]int, ranks)
		for i := range ring {
			ring[i] = i
		}
		return ring
	}
	return reduce.Permutation(uint64(c.ring)<<16+uint64(channel), ranks)
}

func (c choice) label() string { return fmt.Sprintf("%s.%s.%d.%d", c.order, c.acc, c.channels, c.ring) }

// aroundRing is the chain once around a ring, from place first on.
func aroundRing(ring []int, first int) reduce.Tree {
	order := make([]int, len(ring))
	for i := range order {
		order[i] = ring[(first+i)%len(ring)]
	}
	return reduce.Chain(order)
}

// by lets a collective run by the plan that its label names.
func by(choices []choice) device.Middleware {
	plans := map[string]reduce.Plan{}
	for _, c := range choices {
		p, err := reduce.ParsePlan(c.plan())
		if err != nil {
			panic(err)
		}
		plans[c.label()] = p
	}
	return func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			if p, ok := plans[c.Label]; ok {
				plan, err := c.Plan.With(p)
				if err != nil {
					panic(err)
				}
				c.Plan = plan
			}
			next(c)
		}
	}
}

// eval adds by a tree in float64.
func eval(t reduce.Tree, x []float64) float64 {
	if len(t.Kids) == 0 {
		return x[t.Leaf]
	}
	return eval(t.Kids[0], x) + eval(t.Kids[1], x)
}

// defined is the sum of the members' values by a tree, each partial sum held in acc and the last in the format.
func defined(t reduce.Tree, x []float64, acc, f lowp.Format) float64 {
	if f == lowp.FP64 {
		return eval(t, x)
	}
	narrow := make([]float32, len(x))
	for i, v := range x {
		narrow[i] = float32(v)
	}
	return float64(f.Round(t.Sum(narrow, acc)))
}

func fillRandom(r *rand.Rand, t *device.Tensor) {
	for i := range t.Len() {
		t.Set(i, r.NormFloat64()*math.Exp2(float64(r.IntN(9))))
	}
}

// sums are what one world made of random inputs: by label, by rank, of both collectives that add.
type sums struct {
	in          []*device.Tensor // by rank
	all, shards map[string][]*device.Tensor
}

func (s sums) column(e int) []float64 {
	x := make([]float64, len(s.in))
	for i, t := range s.in {
		x[i] = t.Value(e)
	}
	return x
}

// sum runs every choice over the ranks of a world.
func sum(t *testing.T, seed uint64, ranks, node, n int, f lowp.Format, choices []choice) sums {
	s := sums{in: make([]*device.Tensor, ranks), all: map[string][]*device.Tensor{}, shards: map[string][]*device.Tensor{}}
	for _, c := range choices {
		s.all[c.label()], s.shards[c.label()] = make([]*device.Tensor, ranks), make([]*device.Tensor, ranks)
	}
	w := NewWorld(Layout{DP: ranks}, node)
	require.NoError(t, w.Run(func(r Rank) error {
		dev := device.New(device.Options{Rank: r.Index, At: w.At(r.Index), Schedule: device.Schedule{Seed: 5}}, by(choices))
		x := device.NewTensor(f, n)
		fillRandom(rand.New(rand.NewPCG(seed, uint64(r.Index))), x)
		s.in[r.Index] = x
		dev.At(1, 0, device.Opt)
		for _, c := range choices {
			s.all[c.label()][r.Index] = r.DP().AllReduce(dev.In("all"), c.label(), x)
			s.shards[c.label()][r.Index] = r.DP().ReduceScatter(dev.In("shards"), c.label(), alone(x))
		}
		return nil
	}))
	return s
}

// choices are every order with a few channels and rings each.
func choices(r *rand.Rand, accs ...string) (all []choice) {
	for _, order := range []string{"ring", "nccltree", "symmetric", "seq", "pairwise", "reverse", "arrival", "lanes(4)", "perm(9)", "splitk(3,ring)"} {
		for _, ring := range []int{1, 2 + r.IntN(50)} {
			if order == "ring" || ring == 1 {
				all = append(all, choice{order, accs[r.IntN(len(accs))], 1 + r.IntN(4), ring})
			}
		}
	}
	return all
}

// worlds are numbers of ranks: all up to 33 in the matrix, otherwise those around powers of two and some between.
func worlds() (all []int) {
	switch {
	case testing.Short(): // the race detector makes more too many
		return []int{2, 10, 18, 26}
	case !*matrix:
		return []int{2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 32, 33}
	}
	for n := 2; n <= 33; n++ {
		all = append(all, n)
	}
	return all
}

// Every element on every rank is its tree's sum, whatever the number of ranks, nodes and elements, the format, the order, the channels and the ring.
func TestCollectivesAreTheirDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 4))
	moved := 0 // elements for which the order matters at all
	for _, ranks := range worlds() {
		for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64} {
			node := []int{1, 4, 8}[r.IntN(3)]
			n := []int{0, 1, ranks - 1, ranks + 1, 3*ranks + 2, 97}[r.IntN(6)]
			accs := []string{"fp32", "bf16"}
			if f == lowp.BF16 {
				accs = []string{"bf16", "fp32"} // the latter rounds once, at the end
			}
			all := choices(r, accs...)
			s := sum(t, r.Uint64(), ranks, node, n, f, all)
			for _, c := range all {
				acc, err := lowp.Parse(c.acc)
				require.NoError(t, err)
				for e := range n {
					at := fmt.Sprintf("%s over %d ranks, nodes of %d: element %d of %d in %s", c.plan(), ranks, node, e, n, f)
					want := defined(c.tree(e, n, ranks, node), s.column(e), acc, f)
					for rank, y := range s.all[c.label()] {
						require.Equal(t, want, y.Value(e), "all_reduce %s: rank %d", at, rank)
					}
					want = defined(c.shardTree(e, n, ranks, node), s.column(e), acc, f)
					per := (n + ranks - 1) / ranks
					require.Equal(t, want, s.shards[c.label()][e/per].Value(e%per), "reduce_scatter %s", at)
					if want != defined(reduce.Seq.Tree(ranks), s.column(e), acc, f) {
						moved++
					}
				}
			}
		}
	}
	require.Greater(t, moved, 300, "the comparison must be able to fail")
}

// docs/facts.md, Collectives, known answers, through the collectives themselves: chunk c of a ring is element c of as many as ranks.
func TestKnownAnswersOfCollectives(t *testing.T) {
	for _, k := range []struct {
		f                lowp.Format
		x                []float64
		ring             []float64
		tree             [2]float64
		seq, exactlyWhat float64
	}{
		{lowp.BF16, []float64{256, 1, 1, 1}, []float64{260, 260, 256, 256}, [2]float64{260, 260}, 256, 259},
		{lowp.FP32, []float64{0x1p24, 1, 1, 1}, []float64{16777220, 16777220, 16777216, 16777216}, [2]float64{16777220, 16777220}, 16777216, 16777219},
		{lowp.FP32, []float64{1e8, 1, -1e8, 1}, []float64{0, 1, 0, 1}, [2]float64{0, 1}, 1, 2},
		{lowp.BF16, []float64{256, 1, 1, 1, -256, 1, 1, 1}, []float64{6, 6, 6, 6, 4, 5, 2, 3}, [2]float64{6, 6}, 3, 6},
		{lowp.BF16, []float64{1, 0x1p-8, 0x1p-8, 0x1p-8, 0x1p-8}, []float64{1.015625, 1.015625, 1.015625, 1, 1}, [2]float64{1.015625, 1.015625}, 1, 1.015625},
	} {
		n := len(k.x)
		run := func(plan string, elements int) (all []float64, shards []float64) {
			require.NoError(t, simulate(t, n, 1, func(r Rank, dev *device.Device) error {
				x := device.NewTensor(k.f, elements)
				for i := range elements {
					x.Set(i, k.x[r.Index])
				}
				y, s := r.DP().AllReduce(dev, "all", x), gather(r.DP(), dev, "gather", r.DP().ReduceScatter(dev, "shards", alone(x)), elements)
				if r.Index == n-1 {
					for i := range elements {
						all, shards = append(all, y.Value(i)), append(shards, s.Value(i))
					}
				}
				return nil
			}, planned(plan)))
			return all, shards
		}
		all, shards := run("ranks:ring/"+k.f.String(), n)
		require.Equal(t, k.ring, all, "%v", k.x)
		require.Equal(t, k.ring, shards, "%v", k.x)
		all, _ = run("channels=2; ranks:nccltree/"+k.f.String(), 2)
		require.Equal(t, k.tree[:], all, "%v", k.x)
		all, shards = run("ranks:seq/"+k.f.String(), n)
		for i := range n {
			require.Equal(t, k.seq, all[i])
			require.Equal(t, k.seq, shards[i])
		}
		exact := 0.0
		for _, v := range k.x {
			exact += v
		}
		require.Equal(t, k.exactlyWhat, exact)
	}
}

// The last line of docs/facts.md, Collectives's table is in bits.
func TestKnownBitsOfTheRing(t *testing.T) {
	x := []float64{.1, .2, .3, .4}
	for plan, want := range map[string][]string{
		"ranks:ring":                 {"3f800000", "3f800001", "3f800000", "3f800000"},
		"ranks:seq":                  {"3f800000", "3f800000", "3f800000", "3f800000"},
		"ranks:nccltree; channels=2": {"3f800000", "3f800000", "3f800000", "3f800000"},
	} {
		require.NoError(t, simulate(t, 4, 1, func(r Rank, dev *device.Device) error {
			v := vector(4)
			for i := range 4 {
				v.Set(i, x[r.Index])
			}
			y := r.DP().AllReduce(dev, "y", v)
			for i := range 4 {
				if y.Bits(i) != want[i] {
					return fmt.Errorf("%s: element %d is %s: must be %s", plan, i, y.Bits(i), want[i])
				}
			}
			return nil
		}, planned(plan)))
	}
}

// docs/facts.md, Collectives writes the double binary trees of 4, 5 and 8 ranks out.
func TestTheTreesAreThoseOfNCCL(t *testing.T) {
	for n, want := range map[int][2]string{
		4: {"(0 ((2 1) 3))", "(3 ((1 2) 0))"},
		5: {"(0 (4 ((2 1) 3)))", "(1 (0 ((3 2) 4)))"},
		8: {"(0 ((4 ((2 1) 3)) ((6 5) 7)))", "(7 ((3 ((5 6) 4)) ((1 2) 0)))"},
	} {
		trees := revealed(t, choice{"nccltree", "fp32", 2, 1}, n, 1, 2)
		for i := range 2 {
			tree, err := reduce.ParseTree(want[i])
			require.NoError(t, err)
			require.True(t, tree.Equal(trees[i]), "%d ranks: %s", n, trees[i])
		}
	}
}

// revealed recovers the tree of every element of an all-reduce by masking ranks. All questions that Reveal can ask are put first, each to
// all elements in one collective: what it asks depends on answers, what it can ask on the number of ranks alone.
func revealed(t *testing.T, c choice, ranks, node, n int) []reduce.Tree {
	acc, err := lowp.Parse(c.acc)
	require.NoError(t, err)
	return revealedBy(t, c.plan(), acc, ranks, node, n)
}

func revealedBy(t *testing.T, plan string, acc lowp.Format, ranks, node, n int) []reduce.Tree {
	questions := questionsTo(t, ranks, acc)
	answers := make([]*device.Tensor, len(questions))
	w := NewWorld(Layout{DP: ranks}, node)
	require.NoError(t, w.Run(func(r Rank) error {
		dev := device.New(device.Options{Rank: r.Index, At: w.At(r.Index)}, planned(plan))
		x := device.NewTensor(acc, n)
		for i, q := range questions {
			dev.At(i+1, 0, device.Opt)
			for e := range x.F32() {
				x.F32()[e] = q[r.Index]
			}
			y := r.DP().AllReduce(dev, "y", x)
			if r.Index == ranks-1 {
				answers[i] = device.NewTensor(acc, n)
				answers[i].CopyFrom(y)
			}
		}
		return nil
	}))
	return treesFrom(t, plan, ranks, acc, questions, answers)
}

// questionsTo are the values that Reveal can give to so many ranks.
func questionsTo(t *testing.T, ranks int, acc lowp.Format) [][]float32 {
	var questions [][]float32
	ask := func(x []float32) float32 {
		questions = append(questions, append([]float32(nil), x...))
		return acc.Round(float32(math.NaN()))
	}
	probe := reduce.ProbeFor(acc)
	for i := range ranks {
		for j := i + 1; j < ranks; j++ {
			x := make([]float32, ranks)
			for k := range x {
				x[k] = probe.Unit
			}
			x[i], x[j] = probe.Mask, -probe.Mask
			ask(x)
		}
	}
	chain := reduce.Seq.Tree(ranks) // any tree makes Reveal put its random questions
	_, err := reduce.Reveal(ranks, func(x []float32) float32 {
		questions = append(questions, append([]float32(nil), x...))
		return chain.Sum(x, acc)
	}, acc)
	require.NoError(t, err)
	return questions
}

// treesFrom finds each element's tree in the answers.
func treesFrom(t *testing.T, plan string, ranks int, acc lowp.Format, questions [][]float32, answers []*device.Tensor) []reduce.Tree {
	byQuestion := map[string]*device.Tensor{}
	for i, q := range questions {
		byQuestion[fmt.Sprint(q)] = answers[i]
	}
	trees := make([]reduce.Tree, answers[0].Len())
	for e := range trees {
		found, err := reduce.Reveal(ranks, func(x []float32) float32 { return byQuestion[fmt.Sprint(x)].F32()[e] }, acc)
		require.NoError(t, err, "%s over %d ranks: element %d", plan, ranks, e)
		require.True(t, found.Verified, "%s over %d ranks: element %d", plan, ranks, e)
		trees[e] = found.Tree
	}
	return trees
}

// Masking ranks recovers the tree that the plan says, for every algorithm, number of ranks, chunk and channel.
func TestRevealRecoversTheTreesOfCollectives(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 33))
	for _, ranks := range worlds() {
		for _, order := range []string{"ring", "nccltree", "symmetric", "seq", "pairwise"} {
			c := choice{order, []string{"fp32", "bf16"}[r.IntN(2)], 1 + r.IntN(4), 1}
			if order == "ring" && r.IntN(2) == 0 {
				c.ring = 2 + r.IntN(9)
			}
			node, n := []int{1, 4, 8}[r.IntN(3)], c.channels // every channel, and for rings and owners every chunk
			if order == "ring" || order == "symmetric" {
				n *= ranks
			}
			trees := revealed(t, c, ranks, node, n)
			for e := range trees {
				want := c.tree(e, n, ranks, node)
				require.True(t, want.Equal(trees[e]), "%s over %d ranks, nodes of %d: element %d is %s: must be %s", c.plan(), ranks, node, e, trees[e], want)
			}
		}
	}
}

// The same message again, one of another length and one by another plan are each cut anew where they must be, and an order that is not one for
// so many ranks is reported however often it is met.
func TestPartsAreKeptPerMessage(t *testing.T) {
	const ranks = 4
	order := "ring"
	plan := func(next device.Runner) device.Runner {
		return func(c *device.Call) { planned("ranks:" + order)(next)(c) }
	}
	w := NewWorld(Layout{DP: ranks}, 1)
	var misfit error
	require.NoError(t, simulateIn(t, w, func(r Rank, dev *device.Device) error {
		for step := 1; step <= 3*maxMessages; step++ {
			dev.At(step, 0, device.Opt)
			n := 1 + step%(maxMessages+1)
			x := vector(n)
			for i := range x.F32() {
				x.F32()[i] = []float32{0x1p24, 1, 1, 1}[r.Index]
			}
			y, s := r.DP().AllReduce(dev, "y", x), r.DP().ReduceScatter(dev, "s", alone(x))
			for e := range n {
				if chunk, _, _ := partOf(e, n, ranks); y.F32()[e] != []float32{16777220, 16777220, 16777216, 16777216}[chunk] {
					return fmt.Errorf("step %d: element %d of %d is %g", step, e, n, y.F32()[e])
				}
			}
			if s.Len() > 0 && s.F32()[0] != []float32{16777220, 16777220, 16777216, 16777216}[r.Index] {
				return fmt.Errorf("step %d: the shard of rank %d begins with %g", step, r.Index, s.F32()[0])
			}
		}
		return nil
	}, plan))
	require.LessOrEqual(t, len(w.groups[0].messages), maxMessages)

	order = "arrival" // drawn again at every step
	seen := map[string]bool{}
	require.NoError(t, simulate(t, ranks, 1, func(r Rank, dev *device.Device) error {
		for step := 1; step <= 40; step++ {
			dev.At(step, 0, device.Opt)
			x := vector(1)
			x.F32()[0] = []float32{0x1p24, 1, -0x1p24, 1}[r.Index]
			y := r.DP().AllReduce(dev, "y", x)
			order := device.Schedule{}.Arrival(rng.HashString("opt y"), device.ID{Step: step}, "ranks", ranks)
			if want := reduce.Chain(order).Sum([]float32{0x1p24, 1, -0x1p24, 1}, lowp.FP32); y.F32()[0] != want {
				return fmt.Errorf("step %d: %g: must be %g", step, y.F32()[0], want)
			}
			if r.Index == 0 {
				seen[y.Bits(0)] = true
			}
		}
		return nil
	}, plan))
	require.Greater(t, len(seen), 1, "the order must matter")

	order = "given(1 0)"
	require.NoError(t, simulate(t, ranks, 1, func(r Rank, dev *device.Device) error {
		r.DP().AllReduce(dev, "y", vector(3))
		if r.Index == 0 {
			misfit = dev.Err()
		}
		return nil
	}, plan))
	require.EqualError(t, misfit, "plan for y (all_reduce): ranks:given(1 0)/fp32: is not an order of 4 values, but of 2")
}

// A switch that knows no other communicator adds as the plan says; one more, and the same plan is another order.
func TestCommunicatorsDealTheTablesOfASwitch(t *testing.T) {
	const ranks = 9
	seen := map[string]string{}
	for _, order := range []string{"perm(1)", "perm(2)"} {
		for communicators := 1; communicators <= 4; communicators++ {
			tree := revealedBy(t, fmt.Sprintf("ranks:%s; communicators=%d", order, communicators), lowp.FP32, ranks, 1, 1)[0]
			at := fmt.Sprint(order, " among ", communicators)
			require.Equal(t, communicators == 1, tree.Equal(reduce.MustOrder(order).Tree(ranks)), at)
			require.Empty(t, seen[tree.String()], at)
			seen[tree.String()] = at
		}
	}
	for communicators := 1; communicators <= 2; communicators++ { // nothing but a switch shares tables
		tree := revealedBy(t, fmt.Sprintf("ranks:reverse; communicators=%d", communicators), lowp.FP32, ranks, 1, 1)[0]
		require.True(t, tree.Equal(reduce.MustOrder("reverse").Tree(ranks)))
	}
}

// Counts are added as whole numbers, in place, and wrap around as int32 does.
func TestSumCounts(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 8, 33} {
		for _, n := range []int{1, 2, 40} {
			require.NoError(t, simulate(t, ranks, 4, func(r Rank, dev *device.Device) error {
				x := device.NewTensor(lowp.INT32, n)
				want := int32(0)
				for i := range x.I32() {
					x.I32()[i] = int32(r.Index+1)<<26 + int32(i)
				}
				r.DP().SumCounts(dev, "n", x)
				for i, have := range x.I32() {
					want = int32(i * ranks)
					for k := range ranks {
						want += int32(k+1) << 26
					}
					if have != want {
						return fmt.Errorf("%d: must be %d", have, want)
					}
				}
				return nil
			}))
		}
	}
}

// Gathering is every member's shard in its place, bit for bit, in every format.
func TestAllGather(t *testing.T) {
	for ranks := 1; ranks <= 33; ranks += 4 {
		for _, n := range []int{1, ranks - 1, ranks, 5*ranks + 3} {
			for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64, lowp.INT32} {
				require.NoError(t, simulate(t, ranks, 4, func(r Rank, dev *device.Device) error {
					lo, hi := Shard(n, ranks, r.Index)
					x := device.NewTensor(f, hi-lo)
					for i := range hi - lo {
						x.Set(i, float64(lo+i)-2)
					}
					y := gather(r.DP(), dev, "y", x, n)
					if y.Len() != n {
						return fmt.Errorf("%d elements: must be %d", y.Len(), n)
					}
					for i := range n {
						if want := device.NewTensor(f, 1); true {
							want.Set(0, float64(i)-2)
							if y.Bits(i) != want.Bits(0) {
								return fmt.Errorf("element %d is %g", i, y.Value(i))
							}
						}
					}
					return nil
				}), "%d elements over %d ranks in %s", n, ranks, f)
			}
		}
	}
}

// A rank may change what it brought as soon as it goes on, and keeps what it got.
func TestNobodyReadsWhatAnotherMayChange(t *testing.T) {
	const ranks, n = 8, 40
	require.NoError(t, simulate(t, ranks, 4, func(r Rank, dev *device.Device) error {
		x, s := vector(n), vector(n/ranks)
		for step := 1; step <= 30; step++ {
			dev.At(step, 0, device.Opt)
			for i := range x.F32() {
				x.F32()[i] = float32(step)
			}
			for i := range s.F32() {
				s.F32()[i] = float32(step * (r.Index + 1))
			}
			y := r.DP().AllReduce(dev, "y", x)
			x.F32()[step] = -1
			z := gather(r.DP(), dev, "z", s, n)
			s.F32()[0] = -1
			for i := range n {
				if y.F32()[i] != float32(ranks*step) || z.F32()[i] != float32(step*(i/(n/ranks)+1)) {
					return fmt.Errorf("step %d: rank %d has %v and %v", step, r.Index, y.F32(), z.F32())
				}
			}
			y.F32()[step], z.F32()[step] = -2, -2
		}
		return nil
	}))
}

// Between ranks travels what the plan sends: running sums, or kids, or leaves, and the result of an all-reduce to all. What a rank adds is not
// rounded; every rank has the same.
func TestSumsAreSentInTheirFormat(t *testing.T) {
	const ranks, n = 5, 100
	for order, of := range map[string]string{"ring": "ring(4)", "nccltree": "nccltree(0)", "pairwise": "pairwise", "lanes(2)": "lanes(2)", "symmetric": "symmetric(4)"} {
		formats := reduce.Formats{Wire: lowp.BF16}
		x := make([][]float32, n)
		for i := range x {
			x[i] = check.Random(rand.New(rand.NewPCG(uint64(i), 1)), ranks)
		}
		differs := map[string]bool{}
		require.NoError(t, simulate(t, ranks, 4, func(r Rank, dev *device.Device) error {
			for i, values := range x {
				dev.At(i+1, 0, device.Opt)
				one := device.NewTensor(lowp.FP32, 1)
				one.F32()[0] = values[r.Index]
				tree := reduce.MustOrder(of).Tree(ranks)
				if order == "nccltree" {
					tree = reduce.MustOrder("nccltree(0,4)").Tree(ranks)
				}
				got := r.DP().AllReduce(dev, "y", one).F32()[0]
				check.SameBits(t, []float32{lowp.BF16.Round(tree.SumIn(values, formats))}, []float32{got}, "%s of %v", of, values)
				if r.Index == 0 {
					differs["fp32"] = differs["fp32"] || got != lowp.BF16.Round(tree.Sum(values, lowp.FP32))
					differs["bf16"] = differs["bf16"] || got != tree.Sum(values, lowp.BF16)
				}
			}
			return nil
		}, planned("ranks:"+order+"/"+formats.String())))
		require.Equal(t, map[string]bool{"fp32": true, "bf16": true}, differs, "%s: negative control", order)
	}
}
