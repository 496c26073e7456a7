package reduce_test

import (
	"fmt"

	"firstbit/lowp"
	"firstbit/reduce"
)

// An order of addition is a tree for each number of values: it is drawn, bounded, and adds.
func ExampleOrder() {
	order, err := reduce.ParseOrder("blocked(2)")
	if err != nil {
		fmt.Println(err)
		return
	}
	tree := order.Tree(5)
	fmt.Print(tree, "\n", tree.Text())
	fmt.Println("error at most", tree.Ulps(), "roundings of Σ|x|")
	x := []float32{1 << 24, 1, 1, 1, 1}
	fmt.Printf("blocked(2) makes %.0f, seq makes %.0f\n", tree.Sum(x, lowp.FP32), reduce.MustOrder("seq").Tree(5).Sum(x, lowp.FP32))
	// Output:
	// (((0 1) (2 3)) 4)
	// 0 ─┐
	// 1 ─┴─┐
	// 2 ─┐ │
	// 3 ─┴─┴─┐
	// 4 ─────┴─
	// error at most 3 roundings of Σ|x|
	// blocked(2) makes 16777220, seq makes 16777216
}

// Reveal asks a sum that says nothing of its order until it knows its tree, and replays it.
func ExampleReveal() {
	twoLanes := func(x []float32) float32 {
		var even, odd float32
		for i, v := range x {
			if i%2 == 0 {
				even += v
			} else {
				odd += v
			}
		}
		return even + odd
	}
	r, err := reduce.Reveal(6, twoLanes, lowp.FP32)
	fmt.Println(r.Tree, r.Class, r.Verified, err)
	// Output: (((0 2) 4) ((1 3) 5)) lanes(2) true <nil>
}
