package diff

import (
	"strconv"
	"strings"

	"firstbit/trace"
)

// spot is a record: which of the ranks at hand, and which of its records.
type spot struct{ lane, at int }

// event is what the records of a collective have in common, or names a message's other side.
type event struct {
	trace.Key        // of no rank
	group     string // of a collective
}

// order is how the records of ranks stand to each other: a rank's own come one after another, those of a collective are one event, a
// receive comes after what was sent. Numbers of records of different ranks say nothing.
type order struct {
	lanes  [][]trace.Record
	ranks  []int
	meets  map[event][]spot
	mail   map[trace.Key]spot // messages and what receives them, by their records
	groups map[string][]int
}

func orderOf(ranks []int, lanes [][]trace.Record, groups map[string][]int) *order {
	o := &order{lanes: lanes, ranks: ranks, meets: map[event][]spot{}, mail: map[trace.Key]spot{}, groups: groups}
	for l, records := range lanes {
		for i := range records {
			switch r := &records[i]; {
			case meets(r):
				e := eventOf(r)
				o.meets[e] = append(o.meets[e], spot{l, i})
			case r.Kind == "p2p":
				o.mail[mailKey(r.Key())] = spot{l, i}
			}
		}
	}
	return o
}

func meets(r *trace.Record) bool { return r.Kind == "collective" && r.Group != "" }

// receives tells a receive from a send: it writes what it was sent, and reads nothing.
func receives(r *trace.Record) bool { return r.Kind == "p2p" && len(r.Out) > 0 }

func eventOf(r *trace.Record) event {
	k := r.Key()
	k.Rank = 0
	return event{k, r.Group}
}

// mailKey is a key with its path in one piece, as peers name it.
func mailKey(k trace.Key) trace.Key {
	k.Name, k.Scope = trace.Path(k.Scope, k.Name), ""
	return k
}

// peer is the key of the other side of a message, which a record names as rank, phase and path.
func peer(r *trace.Record) (k trace.Key, ok bool) {
	if r.Peer == nil {
		return k, false
	}
	words := strings.Fields(*r.Peer)
	if len(words) != 4 || words[0] != "rank" {
		return k, false
	}
	rank, err := strconv.Atoi(words[1])
	k = r.Key()
	k.Rank, k.Phase, k.Name, k.Scope = rank, words[2], words[3], ""
	return k, err == nil
}

// members are the records of a collective, by rank.
func (o *order) members(r *trace.Record) []spot { return o.meets[eventOf(r)] }

// none is the place of a mismatch that a rank does not have.
const none = -1

// earliest tells of each lane's place, none for some, whether no other's happens before it. A place is the number of a record; those of
// one collective are one event.
func (o *order) earliest(places []int) []bool {
	w := replay{order: o, places: places, at: make([]int, len(places)), after: make([]bool, len(places)), sent: map[spot]bool{}, came: map[event]int{},
		waits: make([]bool, len(places)), first: make([]bool, len(places))}
	for moved := true; moved; {
		moved = false
		for l := range o.lanes {
			moved = w.run(l) || moved
		}
		if !moved { // a damaged trace: what some rank waits for is not there
			moved = w.force()
		}
	}
	for l, place := range places {
		if place >= len(o.lanes[l]) { // after all there is
			w.first[l] = !w.after[l]
		}
	}
	return w.first
}

// replay goes through the records as they could have happened.
type replay struct {
	*order
	places []int
	at     []int  // by lane: its next record
	after  []bool // by lane: a place lies before it
	waits  []bool // by lane: it has come to the collective it stands at
	sent   map[spot]bool
	came   map[event]int
	first  []bool
}

// run takes a lane as far as it can go.
func (w *replay) run(l int) (moved bool) {
	for w.at[l] < len(w.lanes[l]) {
		r := &w.lanes[l][w.at[l]]
		switch {
		case meets(r):
			if !w.meet(l, r) {
				return moved
			}
			moved = true
			continue
		case receives(r):
			if !w.receive(r, l) {
				return moved
			}
		}
		w.pass(l, w.after[l])
		if r.Kind == "p2p" && !receives(r) {
			w.sent[spot{l, w.at[l]}] = w.after[l]
		}
		w.at[l]++
		moved = true
	}
	return moved
}

// pass looks whether the lane stands at its place.
func (w *replay) pass(l int, before bool) {
	if w.places[l] == w.at[l] {
		w.first[l] = !before
		w.after[l] = true
	}
}

// meet waits for all members; the last to come takes all of them on.
func (w *replay) meet(l int, r *trace.Record) bool {
	e := eventOf(r)
	members := w.meets[e]
	if !w.waits[l] {
		w.waits[l] = true
		w.came[e]++
	}
	if w.came[e] < len(members) {
		return false
	}
	before := false
	for _, m := range members {
		before = before || w.after[m.lane]
	}
	after := before
	for _, m := range members {
		if w.at[m.lane] == m.at {
			w.pass(m.lane, before)
			after = after || w.after[m.lane]
		}
	}
	for _, m := range members {
		if w.at[m.lane] == m.at {
			w.after[m.lane], w.waits[m.lane] = after, false
			w.at[m.lane]++
		}
	}
	return true
}

// receive waits for the sender, where there is a record of it.
func (w *replay) receive(r *trace.Record, l int) bool {
	from, ok := w.sender(r)
	if !ok {
		return true
	}
	if w.at[from.lane] <= from.at {
		return false
	}
	w.after[l] = w.after[l] || w.sent[from]
	return true
}

// sender is the record of what a receive was sent.
func (o *order) sender(r *trace.Record) (spot, bool) {
	k, ok := peer(r)
	if !ok {
		return spot{}, false
	}
	s, ok := o.mail[k]
	return s, ok
}

// force takes one lane that waits past what it waits for: the one that is the least far, so that none runs steps ahead of what the others
// have yet to do. Ranks that wait for sums in other orders wait for each other here.
func (w *replay) force() bool {
	least := none
	for l := range w.lanes {
		if w.at[l] < len(w.lanes[l]) && (least == none || w.behind(l, least)) {
			least = l
		}
	}
	if least == none {
		return false
	}
	w.pass(least, w.after[least])
	w.waits[least] = false
	w.at[least]++
	return true
}

// behind compares how far two lanes are: in steps, then in records.
func (w *replay) behind(l, m int) bool {
	a, b := w.lanes[l][w.at[l]].Iteration, w.lanes[m][w.at[m]].Iteration
	return a < b || a == b && w.at[l] < w.at[m]
}
