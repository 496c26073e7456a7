package run

import "slices"

// supports lists, for several elements that the Call writes, the elements of an operand on which they depend.
func (f *finder) supports(input int, base operands) (all [][]int) {
	was := f.random(len(base[0][input]))
	other := f.random(len(was))
	asked := operands{slices.Clone(base[0])}
	asked[0][input] = was
	f.ask(f.probe.plan, asked, nil, nil)
	first := f.written(nil)
	x := slices.Clone(other)
	asked[0][input] = x
	var moved []int
	f.ask(f.probe.plan, asked, nil, nil)
	for at, b := range f.written(nil) {
		if b != first[at] {
			moved = append(moved, at)
		}
	}
	targets := f.targets(moved)
	found := make([][]int, len(targets))
	var divide func(lo, hi int)
	divide = func(lo, hi int) {
		copy(x, was)
		copy(x[lo:hi], other[lo:hi])
		f.ask(f.probe.plan, asked, nil, nil)
		bits, some := f.written(targets), false
		for t, at := range targets {
			if bits[t] != first[at] {
				some = true
				if hi-lo == 1 {
					found[t] = append(found[t], lo)
				}
			}
		}
		if some && hi-lo > 1 {
			divide(lo, (lo+hi)/2)
			divide((lo+hi)/2, hi)
		}
	}
	divide(0, len(was))
	for _, s := range found {
		if len(s) > 1 && !slices.ContainsFunc(all, func(t []int) bool { return slices.Equal(s, t) }) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b []int) int { return f.distance(a) - f.distance(b) })
	return all
}

// distance is how far a support is from having as many elements as the sum has leaves.
func (f *finder) distance(s []int) int {
	if len(s) > f.n {
		return len(s) - f.n
	}
	return f.n - len(s)
}

// targets are some of the elements that depend on an operand: the first and the last of each output, and others at random.
func (f *finder) targets(moved []int) (all []int) {
	at := 0
	for _, a := range f.members[0].call.Out {
		n := len(a.F32())
		lo, _ := slices.BinarySearch(moved, at)
		hi, _ := slices.BinarySearch(moved, at+n)
		if at += n; lo == hi {
			continue
		}
		for _, i := range []int{hi - 1, lo, lo + f.rng.IntN(hi-lo), lo + f.rng.IntN(hi-lo), lo + f.rng.IntN(hi-lo)} {
			if !slices.Contains(all, moved[i]) {
				all = append(all, moved[i])
			}
		}
	}
	slices.Sort(all)
	return all
}

// subsets are the elements of a support that may be the leaves of one sum: all, those of a column or of a row, and so many one after another
// or evenly apart.
func (f *finder) subsets(input int, support []int) (all []*leafSet) {
	cols := f.members[0].in[input].Cols()
	add := func(list []int) {
		if len(list) < 2 || len(list) > f.n {
			return
		}
		by := []func(i, e int) int{func(i, _ int) int { return i }}
		if len(list) < f.n {
			by = append(by, func(_, e int) int { return e / cols }, func(_, e int) int { return e % cols })
			if each := f.n / len(list); each > 1 {
				by = append(by, func(i, _ int) int { return i * each }, func(i, _ int) int { return i })
			}
		}
		for b, number := range by {
			s := &leafSet{n: f.n}
			if b == 0 { // a sum of that name of fewer leaves
				s.n = len(list)
			}
			for i, e := range list {
				s.at, s.leaf = append(s.at, address{0, input, e}), append(s.leaf, number(i, e))
			}
			sorted := slices.Compact(slices.Sorted(slices.Values(s.leaf)))
			if len(sorted) == len(s.leaf) && sorted[len(sorted)-1] < s.n && !slices.ContainsFunc(all, func(o *leafSet) bool { return slices.Equal(o.at, s.at) && slices.Equal(o.leaf, s.leaf) && o.n == s.n }) {
				all = append(all, s)
			}
		}
	}
	parts := func(list []int) {
		add(list)
		if len(list) > f.n {
			add(list[:f.n])
			add(list[len(list)-f.n:])
			var apart []int
			for i := range f.n {
				apart = append(apart, list[i*(len(list)/f.n)])
			}
			add(apart)
		}
	}
	parts(support)
	for _, key := range []func(e int) int{func(e int) int { return e % cols }, func(e int) int { return e / cols }} {
		groups, keys := map[int][]int{}, []int{}
		for _, e := range support {
			k := key(e)
			if groups[k] == nil {
				keys = append(keys, k)
			}
			groups[k] = append(groups[k], e)
		}
		for _, k := range []int{keys[0], keys[len(keys)-1]} {
			if len(groups[k]) < len(support) {
				parts(groups[k])
			}
		}
	}
	return all
}
