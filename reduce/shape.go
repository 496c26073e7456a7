package reduce

import "math/bits"

func upTo(start, n, stride int) []int {
	l := make([]int, n)
	for i := range l {
		l[i] = start + i*stride
	}
	return l
}

func singles(n int) []Tree { return chunks(n, 1) }

// chunks are chains over blocks of size consecutive leaves.
func chunks(n, size int) []Tree {
	var t []Tree
	for lo := 0; lo < n; lo += size {
		t = append(t, Chain(upTo(lo, min(size, n-lo), 1)))
	}
	return t
}

// adding is one node that adds leaves by an adder; one leaf is itself.
func adding(by Adder, leaves []int) Tree {
	if len(leaves) == 1 {
		return Tree{Leaf: leaves[0]}
	}
	t := Tree{By: by}
	for _, l := range leaves {
		t.Kids = append(t.Kids, Tree{Leaf: l})
	}
	return t
}

// wholeAdder is the adder of a tree that is one node over leaves; Rounded: it is not.
func wholeAdder(t Tree) Adder {
	for _, k := range t.Kids {
		if !k.isLeaf() {
			return Rounded
		}
	}
	return t.By
}

// pairwiseTree joins parts, the left half being the largest power of two below their number, so
// that aligned blocks of a power of two are subtrees whatever follows them.
func pairwiseTree(parts []Tree) Tree {
	if len(parts) == 1 {
		return parts[0]
	}
	h := half(len(parts))
	return Node(pairwiseTree(parts[:h]), pairwiseTree(parts[h:]))
}

func half(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// halved joins lanes by halving, as if there were a power of two of them: of w lanes, lane i with lane i+w/2, then i+w/4, …;
// a lane without values is absent.
func halved(t []Tree) Tree {
	w := 1
	for w < len(t) {
		w *= 2
	}
	for len(t) < w {
		t = append(t, Empty)
	}
	for w > 1 {
		w /= 2
		for l := range w {
			t[l] = joined(t[l], t[l+w])
		}
	}
	return t[0]
}

func joined(a, b Tree) Tree {
	switch {
	case b.isEmpty():
		return a
	case a.isEmpty():
		return b
	}
	return Node(a, b)
}

// Permutation draws a permutation of 0 to n−1 from a seed: Fisher–Yates from the end, its
// numbers the outputs of splitmix64 started at the seed, each reduced mod i+1.
func Permutation(seed uint64, n int) []int {
	p := upTo(0, n, 1)
	for i := n - 1; i > 0; i-- {
		seed += 0x9e3779b97f4a7c15
		j := int(mix(seed) % uint64(i+1))
		p[i], p[j] = p[j], p[i]
	}
	return p
}
