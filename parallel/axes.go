package parallel

import "strconv"

// The groups of a world. Each cuts the ranks into sets that do not overlap; a rank's place in its set is
// its index there, ascending by rank.
const (
	tpAxis          = "tp"       // parts of one weight
	cpAxis          = "cp"       // parts of one sequence
	dpAxis          = "dp"       // other sequences
	ppAxis          = "pp"       // the stages, first to last
	epAxis          = "ep"       // other experts
	etpAxis         = "etp"      // parts of one expert
	edpAxis         = "edp"      // the same experts, other tokens
	dataAxis        = "dpcp"     // the same dense weights, other tokens: cp, then dp
	microAxis       = "tpcp"     // one microbatch: tp, then cp
	expertsAxis     = "epetp"    // all experts once, other tokens: etp, then ep
	siblingsAxis    = "edpmicro" // the same experts, other tokens of one microbatch
	stageAxis       = "stage"    // all of a stage
	endsAxis        = "ends"     // the first stage and the last
	modelAxis       = "tppp"     // all dense weights once: tp, then pp
	expertModelAxis = "epetppp"  // all experts' weights once: etp, then ep, then pp
	allAxis         = "all"
)

// keys says of every rank which set of an axis it is in.
func (l Layout) keys() map[string]func(rank int) int {
	cp, dp, pp := l.TP*l.CP, l.stage(), l.World()
	fold := l.ETP * l.EP
	without := func(rank, lo, hi int) int { return rank/hi*hi + rank%lo } // of the digits from lo to hi
	return map[string]func(int) int{
		tpAxis:      func(r int) int { return without(r, 1, l.TP) },
		cpAxis:      func(r int) int { return without(r, l.TP, cp) },
		dpAxis:      func(r int) int { return without(r, cp, dp) },
		ppAxis:      func(r int) int { return without(r, dp, pp) },
		etpAxis:     func(r int) int { return without(r, 1, l.ETP) },
		epAxis:      func(r int) int { return r/dp*dp + without(r%dp, l.ETP, fold) },
		edpAxis:     func(r int) int { return r/dp*dp + r%dp%fold },
		dataAxis:    func(r int) int { return without(r, l.TP, dp) },
		microAxis:   func(r int) int { return without(r, 1, cp) },
		expertsAxis: func(r int) int { return r/dp*dp + r%dp/fold*fold },
		siblingsAxis: func(r int) int { // of an edp set, those that have one microbatch
			if fold >= cp {
				return r
			}
			return r/cp*cp + r%cp%fold
		},
		stageAxis: func(r int) int { return without(r, 1, dp) },
		endsAxis: func(r int) int {
			if at := r / dp; at > 0 && at < l.PP-1 {
				return r
			}
			return r % dp
		},
		modelAxis:       func(r int) int { return r % dp / l.TP },
		expertModelAxis: func(r int) int { return r % dp / fold },
		allAxis:         func(int) int { return 0 },
	}
}

// axisOrder is the order in which groups are made.
var axisOrder = []string{dpAxis, tpAxis, cpAxis, ppAxis, epAxis, etpAxis, edpAxis, dataAxis, microAxis, expertsAxis, siblingsAxis, stageAxis, endsAxis, allAxis, modelAxis, expertModelAxis}

// form makes every group of more than one rank. Sets of one rank are no groups: nobody meets there.
// Axes with the same sets share their groups.
func (w *World) form() {
	keys := w.Layout.keys()
	made := map[string][]Member{} // by the sets' ranks
	w.members = map[string][]Member{}
	for _, name := range axisOrder {
		sets := map[int][]int{}
		var order []int
		for r := range w.World() {
			k := keys[name](r)
			if sets[k] == nil {
				order = append(order, k)
			}
			sets[k] = append(sets[k], r)
		}
		if len(sets) == w.World() {
			continue
		}
		first := sets[order[0]]
		id := setsID(order, sets)
		if m := made[id]; m != nil {
			w.members[name] = m
			continue
		}
		members := make([]Member, w.World())
		n := 0
		for _, k := range order {
			ranks := sets[k]
			if len(ranks) == 1 {
				continue
			}
			g := w.group(setName(name, n, len(first) == w.World()), ranks, w.onNode(first))
			n++
			for i, r := range ranks {
				members[r] = Member{g, i}
			}
		}
		made[id] = members
		w.members[name] = members
	}
}

// onNode counts the members of an axis' first set that lie on the first node. A node has consecutive ranks, so sets with a stride have
// fewer there than sets of neighbours. All sets of an axis are taken to lie as the first, even where a node ends inside of some: those
// that add copies of one gradient must add in one order.
func (w *World) onNode(first []int) int {
	n := 0
	for n < len(first) && first[n] < w.Node {
		n++
	}
	return n
}

// setName is the axis, with the number of the set where there are several.
func setName(axis string, n int, only bool) string {
	if only {
		return axis
	}
	return numbered(axis, n)
}

func setsID(order []int, sets map[int][]int) string {
	var b []byte
	for _, k := range order {
		for _, r := range sets[k] {
			b = append(b, byte(r), byte(r>>8))
		}
		b = append(b, 0xff, 0xff)
	}
	return string(b)
}

func (r Rank) member(axis string) Member {
	if r.World == nil || r.World.members[axis] == nil {
		return Member{}
	}
	return r.World.members[axis][r.Index]
}

// TP are the ranks with the parts of one weight. A Member without a Group is alone.
func (r Rank) TP() Member { return r.member(tpAxis) }

// CP are the ranks with the parts of one sequence.
func (r Rank) CP() Member { return r.member(cpAxis) }

// DP are the ranks with the same weights and other sequences.
func (r Rank) DP() Member { return r.member(dpAxis) }

// PP are the stages of a pipeline, first to last.
func (r Rank) PP() Member { return r.member(ppAxis) }

// EP are the ranks with the other experts.
func (r Rank) EP() Member { return r.member(epAxis) }

// ETP are the ranks with the parts of one expert.
func (r Rank) ETP() Member { return r.member(etpAxis) }

// EDP are the ranks with the same experts.
func (r Rank) EDP() Member { return r.member(edpAxis) }

// Data are the ranks with the same dense weights and other tokens.
func (r Rank) Data() Member { return r.member(dataAxis) }

// Micro are the ranks that share a microbatch.
func (r Rank) Micro() Member { return r.member(microAxis) }

// Experts are the ranks that have all experts once.
func (r Rank) Experts() Member { return r.member(expertsAxis) }

// Siblings are the ranks with the same experts and other tokens of one microbatch.
func (r Rank) Siblings() Member { return r.member(siblingsAxis) }

// Stage are all ranks with the same layers.
func (r Rank) Stage() Member { return r.member(stageAxis) }

// Ends are the first stage and the last of a pipeline; alone in between.
func (r Rank) Ends() Member { return r.member(endsAxis) }

// Model are the ranks that have all dense weights once, with other parts of one batch's tokens or with the same: a replica.
func (r Rank) Model() Member { return r.member(modelAxis) }

// ExpertModel are the ranks that have the experts of all layers once.
func (r Rank) ExpertModel() Member { return r.member(expertModelAxis) }

// All is every rank.
func (r Rank) All() Member { return r.member(allAxis) }

// Layout is the world's; of a Rank without a world that of one rank.
func (r Rank) Layout() Layout {
	if r.World == nil {
		return Layout{}.Full()
	}
	return r.World.Layout
}

func numbered(axis string, n int) string { return axis + "." + strconv.Itoa(n) }
