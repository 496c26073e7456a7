package reduce

// joining is how parts are joined.
func (o Order) joining() Order {
	switch {
	case o.join != nil:
		return *o.join
	case o.kind == splitk:
		return Seq
	case o.kind == lanes && o.arg > 1: // by halving
		return Order{kind: lanes, arg: o.arg / 2, cache: new(programCache)}
	}
	return Pairwise
}

// adding is how the values of a part are added.
func (o Order) adding() Order {
	if o.within != nil {
		return *o.within
	}
	return Seq
}

// part is the values of a part: count of them from start on, stride apart.
type part struct{ start, stride, count int }

// Tile is a part of the values of an order that adds in parts: Count of them from Start on, Stride apart, and how they are added.
type Tile struct {
	Start, Stride, Count int
	Order                Order
}

// Tiles cuts n values as a concrete order does that adds in parts, and says how the parts are joined. Any other order has one part.
func (o Order) Tiles(n int) (tiles []Tile, join Order) {
	switch o.kind {
	case blocked, lanes, splitk, segments:
		for i := range o.count(n) {
			p := o.part(i, n)
			tiles = append(tiles, Tile{p.start, p.stride, p.count, o.adding()})
		}
		return tiles, o.joining()
	}
	return []Tile{{0, 1, n, o}}, Seq
}

// count is the number of parts of n values; only segments has some without values.
func (o Order) count(n int) int {
	switch o.kind {
	case lanes:
		return min(int(o.arg), n)
	case segments:
		return int(o.arg)
	}
	if n == 0 {
		return 0
	}
	size := o.size(n)
	return (n + size - 1) / size
}

// size is the number of values of a block or a slice; the last may be short, none is empty.
func (o Order) size(n int) int {
	if o.kind == splitk {
		return (n + int(o.arg) - 1) / int(o.arg)
	}
	return int(o.arg)
}

// part is part i of n values.
func (o Order) part(i, n int) part {
	arg := int(o.arg)
	switch o.kind {
	case lanes:
		return part{i, arg, (n - i + arg - 1) / arg}
	case segments:
		return part{n * i / arg, 1, n*(i+1)/arg - n*i/arg}
	}
	size := o.size(n)
	return part{i * size, 1, min(size, n-i*size)}
}

// partedTree is the meaning of an order of parts: the tree that joins them, each of its leaves a part's sum.
func (o Order) partedTree(n int) Tree {
	sums := make([]Tree, o.count(n))
	for i := range sums {
		p := o.part(i, n)
		if p.count == 0 {
			sums[i] = Empty
			continue
		}
		leaves := make([]Tree, p.count)
		for j, l := range upTo(p.start, p.count, p.stride) {
			leaves[j] = Tree{Leaf: l}
		}
		sums[i] = Graft(o.adding().Tree(p.count), leaves)
		sums[i].stored = true
	}
	if o.join == nil && o.kind == lanes {
		return halved(sums)
	}
	return Graft(o.joining().Tree(len(sums)), sums)
}
