// Onefile is the story of firstbit in one file that needs nothing but Go. A router sends tokens to experts and learns, twice, from the
// same state and the same data; one sum is added as its parts arrive. A bit differs, later a token goes to another expert. The traces
// of the two runs name the sum, and a fixed order cures it.
//
//	go run ./docs/onefile
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
)

const (
	steps   = 40
	tokens  = 64
	width   = 16
	experts = 8
	tiles   = 8 // of the sum over tokens
	rate    = 2
)

// A matrix is rows of one length, one after another.
type matrix struct {
	cols int
	v    []float32
}

func zeros(rows, cols int) matrix { return matrix{cols, make([]float32, rows*cols)} }

func (m matrix) row(i int) []float32 { return m.v[i*m.cols : (i+1)*m.cols] }

// uniform is a matrix with entries in ±scale.
func uniform(r *rand.Rand, rows, cols int, scale float32) matrix {
	m := zeros(rows, cols)
	for i := range m.v {
		m.v[i] = scale * (float32(2*float32(r.Float32())) - 1)
	}
	return m
}

// bf16 rounds to the upper 16 bits of a float32, ties to even.
func bf16(x float32) float32 {
	b := math.Float32bits(x)
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
}

// dot adds from left to right, an order that depends on nothing. The conversion forbids a fused multiply-add, whose bits are others.
func dot(a, b []float32) (sum float32) {
	for i := range a {
		sum += float32(a[i] * b[i])
	}
	return sum
}

// An order is the sequence in which the tiles of a sum are added in a step.
type order func(step int) []int

// arrival is the atomic add: whoever is done first adds first. The schedule stands for the races of a machine, so that each can be run
// again.
func arrival(schedule uint64) order {
	return func(step int) []int { return rand.New(rand.NewPCG(schedule, uint64(step))).Perm(tiles) }
}

// fixed is the cure: each tile has a slot of its own, and the slots are added from first to last.
func fixed(int) []int { return []int{0, 1, 2, 3, 4, 5, 6, 7} }

// A record is what a trace keeps of an operation: fingerprints of the bits that it read and of those that it wrote.
type record struct {
	step    int
	name    string
	in, out [32]byte
}

// A run is a model, the tensors of its current step, and what is kept to compare it.
type run struct {
	router, target, weights, x matrix // weights: rows e·width and on are those of expert e
	scores, soft, route, h, g  matrix
	dscores, drouter           matrix
	trace                      []record
	sums                       [steps][]float32 // what router.dw wrote
	routes                     [steps][tokens]int
	best                       [steps][tokens][2]float32 // the two highest scores of a token
	loss                       [steps]float32
}

func fingerprint(of []matrix) [32]byte {
	var bytes []byte
	for _, m := range of {
		for _, x := range m.v {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
		}
	}
	return sha256.Sum256(bytes)
}

// do runs an operation and records it. Its last matrix is the one that it writes.
func (r *run) do(step int, name string, body func(), tensors ...matrix) {
	in := fingerprint(tensors[:len(tensors)-1])
	body()
	r.trace = append(r.trace, record{step, name, in, fingerprint(tensors[len(tensors)-1:])})
}

// train learns to imitate a linear map by choosing among experts that stay as they are. A token x goes to the expert e with the highest
// score, and
//
//	scores = x·Rᵀ    p = softmax(scores)[e]    y = p·Wₑx    loss = mean (y − target)²
//
// The backward, from g = ∂loss/∂y:  ∂p = g·Wₑx    ∂scoresⱼ = p·([j = e] − softmaxⱼ)·∂p    ∂R = Σ over tokens ∂scores xᵀ
//
// The sum of ∂R is cut into tiles of tokens, which are added in the given order; all else is fixed.
func train(tileOrder order) *run {
	random := rand.New(rand.NewPCG(1, 1))
	r := &run{router: uniform(random, experts, width, 0.3), target: uniform(random, width, width, 1), weights: uniform(random, experts*width, width, 1)}
	for s := range steps {
		r.x, r.scores, r.soft = uniform(random, tokens, width, 1), zeros(tokens, experts), zeros(tokens, experts)
		r.route, r.h, r.g = zeros(tokens, 1), zeros(tokens, width), zeros(tokens, width)
		r.dscores, r.drouter = zeros(tokens, experts), zeros(experts, width)
		r.do(s, "router.scores", r.score, r.x, r.router, r.scores)
		r.do(s, "router.softmax", r.softmax, r.scores, r.soft)
		r.do(s, "router.top1", func() { r.choose(s) }, r.scores, r.route)
		r.do(s, "experts.forward", r.forward, r.x, r.weights, r.route, r.h)
		r.do(s, "loss.backward", func() { r.lose(s) }, r.x, r.target, r.soft, r.route, r.h, r.g)
		r.do(s, "router.dscores", r.backward, r.soft, r.route, r.h, r.g, r.dscores)
		r.do(s, "router.dw", func() { r.gradient(tileOrder(s)) }, r.x, r.dscores, r.drouter)
		r.do(s, "router.update", r.update, r.router, r.drouter, r.router)
		r.sums[s] = r.drouter.v
	}
	return r
}

func (r *run) score() {
	for t := range tokens {
		for e := range experts {
			r.scores.row(t)[e] = bf16(dot(r.x.row(t), r.router.row(e)))
		}
	}
}

func (r *run) choose(step int) {
	for t := range tokens {
		s := r.scores.row(t)
		best := slices.Index(s, slices.Max(s)) // of equal scores the first
		sorted := slices.Sorted(slices.Values(s))
		r.route.v[t], r.routes[step][t], r.best[step][t] = float32(best), best, [2]float32{sorted[experts-1], sorted[experts-2]}
	}
}

func (r *run) softmax() {
	for t := range tokens {
		var sum float32
		for e, s := range r.scores.row(t) {
			r.soft.row(t)[e] = float32(math.Exp(float64(s)))
			sum += r.soft.row(t)[e]
		}
		for e := range experts {
			r.soft.row(t)[e] /= sum
		}
	}
}

func (r *run) forward() {
	for t := range tokens {
		for i := range width {
			r.h.row(t)[i] = dot(r.weights.row(int(r.route.v[t])*width+i), r.x.row(t)) // fits: an expert
		}
	}
}

func (r *run) lose(step int) {
	for t := range tokens {
		p := r.soft.row(t)[int(r.route.v[t])] // fits: an expert
		for i, h := range r.h.row(t) {
			off := float32(p*h) - dot(r.target.row(i), r.x.row(t))
			r.loss[step] += float32(float32(off*off) / (tokens * width))
			r.g.row(t)[i] = 2 * off / (tokens * width)
		}
	}
}

func (r *run) backward() {
	for t := range tokens {
		e := int(r.route.v[t]) // fits: an expert
		p, dp := r.soft.row(t)[e], dot(r.g.row(t), r.h.row(t))
		for j, s := range r.soft.row(t) {
			r.dscores.row(t)[j] = float32(p*-s) * dp
			if j == e {
				r.dscores.row(t)[j] = float32(p*(1-s)) * dp
			}
		}
	}
}

// gradient adds tiles into memory that keeps bf16, as they come: the one place where two runs differ.
func (r *run) gradient(order []int) {
	for _, tile := range order {
		partial := zeros(experts, width)
		for t := tile * tokens / tiles; t < (tile+1)*tokens/tiles; t++ {
			for e, d := range r.dscores.row(t) {
				for j, x := range r.x.row(t) {
					partial.row(e)[j] += float32(d * x)
				}
			}
		}
		for i, p := range partial.v {
			r.drouter.v[i] = bf16(r.drouter.v[i] + p)
		}
	}
}

func (r *run) update() {
	for i, d := range r.drouter.v {
		r.router.v[i] = bf16(r.router.v[i] - float32(rate*d))
	}
}

func main() {
	a, b := train(arrival(1)), train(arrival(2))
	if a.routes == b.routes {
		fmt.Println("No token takes another route.")
		return
	}
	root, s, t := 0, 0, 0 // what first read the same bits and wrote others; the first step and token with another route
	for ; a.trace[root].in != b.trace[root].in || a.trace[root].out == b.trace[root].out; root++ {
	}
	for ; a.routes[s] == b.routes[s]; s++ {
	}
	for ; a.routes[s][t] == b.routes[s][t]; t++ {
	}
	at, element := a.trace[root].step, 0
	for ; a.sums[at][element] == b.sums[at][element]; element++ {
	}
	x, y := a.sums[at][element], b.sums[at][element]
	fmt.Println("Two runs from one state, on the same data; the tiles of router.dw are added as they arrive.")
	fmt.Printf("\nThe first operation that read the same bits and wrote others: step %d, %s.\n", at+1, a.trace[root].name)
	fmt.Printf("  tiles arrived  %v and %v\n", arrival(1)(at), arrival(2)(at))
	fmt.Printf("  element %-6d %v and %v\n  its bf16 bits  %016b and %016b\n", element, x, y, math.Float32bits(x)>>16, math.Float32bits(y)>>16)
	fmt.Printf("\nThe first token that takes another route: step %d, token %d.\n", s+1, t)
	fmt.Printf("  expert         %d and %d\n  best scores    %v and %v\n", a.routes[s][t], b.routes[s][t], a.best[s][t], b.best[s][t])
	fmt.Printf("\nLoss at step %d: %v and %v.\n", steps, a.loss[steps-1], b.loss[steps-1])
	if a, b = train(fixed), train(fixed); !slices.Equal(a.trace, b.trace) {
		fmt.Println("Not cured.")
		os.Exit(1)
	}
	fmt.Printf("Cured: with the tiles added from first to last, %d operations of %d steps have the same bits.\n", len(a.trace), steps)
}
