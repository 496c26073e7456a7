package reduce

// Roundings is the number of roundings of the whole sum: one for each addition of two or more, and for compensated sums of n values
// 4·n, or 6·n where errors are added up apart.
func (t Tree) Roundings() int {
	if t.isLeaf() {
		return 0
	}
	r := 1
	switch t.By {
	case Kahan:
		r = 4 * len(t.Kids)
	case Neumaier:
		r = 6 * len(t.Kids)
	}
	for _, k := range t.Kids {
		r += k.Roundings()
	}
	return r
}

// Alive is the number of partial sums alive at once if leaves come in the order 0, 1, 2, …, each added as soon as what it meets is
// there: what a kernel that streams its operand has to keep. What waits to be added counts, a leaf too; a sum whose bits depend on no order
// takes every value as it comes.
func (t Tree) Alive() int {
	if t.isEmpty() {
		return 0
	}
	alive := make([]int, t.count()+1) // changes, by time
	t.lives(func(from, to int) {
		alive[from]++
		alive[to]--
	})
	now, most := 0, 1
	for _, change := range alive {
		now += change
		most = max(most, now)
	}
	return most
}

// lives tells from when to when each sum waits, and returns when the tree's own is there.
func (t Tree) lives(live func(from, to int)) (there int) {
	if t.isLeaf() {
		return t.Leaf
	}
	times := make([]int, len(t.Kids))
	for i, k := range t.Kids {
		times[i] = k.lives(live)
		there = max(there, times[i])
	}
	if t.By.AnyOrder() {
		first := there
		for _, at := range times {
			first = min(first, at)
		}
		live(first, there)
		return there
	}
	reach := 0
	for _, at := range times {
		if reach = max(reach, at); t.By == Rounded {
			reach = there // each waits for the last
		}
		live(at, reach) // compensated sums take a value once those before it are in
	}
	if t.By != Rounded {
		live(times[0], there)
	}
	return there
}

// Traffic is what a sum over ranks sends for each element.
type Traffic struct {
	Hops     int // messages one after another
	Messages int
	Between  int // of them between two nodes
	OfRank   int // the most that one rank sends
}

// Traffic follows a sum over ranks, so many to a node: leaf i lies on rank i, a running sum comes to the leaf that it meets, another
// right kid to the left one, see Formats. What an adder of many adds comes to a switch.
func (t Tree) Traffic(perNode int) Traffic {
	var f Traffic
	sent := map[int]int{}
	send := func(from, to int) {
		f.Messages++
		if sent[from]++; to < 0 || from/perNode != to/perNode {
			f.Between++
		}
		f.OfRank = max(f.OfRank, sent[from])
	}
	_, f.Hops = t.travel(send)
	return f
}

// travel returns where the sum is, and after how many messages.
func (t Tree) travel(send func(from, to int)) (home, hops int) {
	if t.isLeaf() {
		return t.Leaf, 0
	}
	homes := make([]int, len(t.Kids))
	stays := 0
	for i := range t.Kids {
		if !t.comes(i) {
			stays = i
		}
	}
	many := len(t.Kids) > 2 || t.By != Rounded
	for i, k := range t.Kids {
		at := 0
		homes[i], at = k.travel(send)
		if many || i != stays {
			at++
		}
		hops = max(hops, at)
	}
	for i, from := range homes {
		switch {
		case many:
			send(from, -1)
		case i != stays:
			send(from, homes[stays])
		}
	}
	return homes[stays], hops
}
