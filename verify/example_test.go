package verify_test

import (
	"fmt"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/parallel"
	"firstbit/reduce"
	"firstbit/run"
	"firstbit/train"
	"firstbit/verify"
)

// A reduction for two nodes of four ranks: each node adds by halves, and the second node's sum comes to the first's. It prints
// its tree, error and cost, is proved fixed under five schedules, and trains.
func Example() {
	leaf := func(i int) reduce.Tree { return reduce.Tree{Leaf: i} }
	node := func(at int) reduce.Tree {
		return reduce.Node(reduce.Node(leaf(at), leaf(at+1)), reduce.Node(leaf(at+2), leaf(at+3)))
	}
	tree := reduce.Node(node(0), node(4))
	order := reduce.OrderOf(tree)
	fmt.Print(order, "\n", tree.Text())
	fmt.Printf("error at most %d roundings of Σ|x|, where a ring has %d\n", tree.Ulps(), reduce.MustOrder("ring(7)").Tree(8).Ulps())
	fmt.Printf("cost %+v\n", tree.Traffic(4))
	x := []float32{1e8, 1, -1e8, 1, 1, 1, 1, 1}
	fmt.Println("of 1e8 1 −1e8 1 1 1 1 1 it makes", tree.Sum(x, lowp.FP32), "in fp32; the sum is", reduce.AddBy(reduce.Exact, x, lowp.FP32))

	s := run.Spec{Config: train.Pico(), Plans: []string{fmt.Sprintf("grads.bucket.* ranks:%s", order)}}
	s.Config.Steps, s.Layout, s.Checks.Strict = 2, parallel.Layout{DP: 8}, true
	fixed, err := verify.Repeat(s, 5, func() {})
	fmt.Println("fixed under five schedules:", fixed.OK, err)

	s.Digest, s.Schedule = true, device.Schedule{Seed: 7}
	trained, err := run.Run(s)
	fmt.Println("trains to the same state:", trained.Steps[1].State == fixed.Hash, err)
	// Output:
	// tree((((0 1) (2 3)) ((4 5) (6 7))))
	// 0 ─┐
	// 1 ─┴─┐
	// 2 ─┐ │
	// 3 ─┴─┴─┐
	// 4 ─┐   │
	// 5 ─┴─┐ │
	// 6 ─┐ │ │
	// 7 ─┴─┴─┴─
	// error at most 3 roundings of Σ|x|, where a ring has 7
	// cost {Hops:3 Messages:7 Between:1 OfRank:1}
	// of 1e8 1 −1e8 1 1 1 1 1 it makes 4 in fp32; the sum is 6
	// fixed under five schedules: true <nil>
	// trains to the same state: true <nil>
}
