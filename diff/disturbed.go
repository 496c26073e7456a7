package diff

import (
	"cmp"
	"slices"
	"strings"

	"firstbit/trace"
)

// disturbance is a breach of one of two runs: the other has none there, or one that reads other bits.
type disturbance struct {
	breach
	inA     bool
	records []trace.Record
	at      int  // in run A
	again   bool // another Call has read it before
}

// disturb finds the breaches in which the runs differ, in all that they recorded. What both read alike made no difference.
func (p *pair) disturb(wholeA, wholeB []trace.Record) {
	back := make([]int, len(p.b)) // from records of b to those of a
	for j := range back {
		back[j] = none
	}
	for i, j := range p.match {
		if j >= 0 {
			back[j] = i
		}
	}
	differs := func(i, in int) bool {
		j := p.match[i]
		return j >= 0 && in < len(p.a[i].In) && in < len(p.b[j].In) && !sigEqual(&p.a[i].In[in], &p.b[j].In[in])
	}
	inA, inB := bySeq(p.a), bySeq(p.b)
	for _, b := range breaches(wholeA) {
		if i, ok := inA[wholeA[b.at].Seq]; ok && differs(i, b.in) {
			p.disturbed = append(p.disturbed, disturbance{b, true, wholeA, i, false})
		}
	}
	for _, b := range breaches(wholeB) {
		if j, ok := inB[wholeB[b.at].Seq]; ok && back[j] != none && differs(back[j], b.in) {
			p.disturbed = append(p.disturbed, disturbance{b, false, wholeB, back[j], false})
		}
	}
	type tensor struct {
		inA   bool
		wrote int
		from  string
	}
	read := map[tensor]bool{}
	for i := range p.disturbed {
		d := &p.disturbed[i]
		x := tensor{d.inA, d.wrote, *d.records[d.breach.at].In[d.in].From}
		d.again = read[x]
		read[x] = true
	}
	slices.SortStableFunc(p.disturbed, func(x, y disturbance) int { return cmp.Compare(x.at, y.at) })
}

func bySeq(records []trace.Record) map[int]int {
	at := make(map[int]int, len(records))
	for i := range records {
		at[records[i].Seq] = i
	}
	return at
}

// disturbance is that of a record of run A; nil: it has none.
func (p *pair) disturbance(at int) *disturbance {
	i, ok := slices.BinarySearchFunc(p.disturbed, at, func(d disturbance, at int) int { return cmp.Compare(d.at, at) })
	if !ok {
		return nil
	}
	return &p.disturbed[i]
}

func (d *disturbance) evidence(p *pair) []string {
	run := "run B"
	if d.inA {
		run = "run A"
	}
	return []string{"in " + run + " " + d.why(d.records)}
}

// toReader moves the first mismatch to the Call that first read what changed in memory, where what differs before it computes nothing:
// metrics, states and boundaries show memory, and are no roots.
func (p *pair) toReader(all *world) {
	if p.identical() || p.extraB >= 0 || p.match[p.first] < 0 {
		return
	}
	a, counter := &p.a[p.first], ""
	switch verdict, _ := p.verdict(all); {
	case a.Kind == "load" || a.Phase == "load":
		return
	case verdict == "origin" && p.counted(a) != "":
		counter = p.counted(a) + "."
	case verdict == "narrow", verdict == "outside-window", verdict == "restore", verdict == "artifact", a.Kind == "metric":
	default:
		return
	}
	for i := range p.disturbed {
		d := &p.disturbed[i]
		if d.at >= p.first && d.shown(p) && strings.HasPrefix(trace.Path(p.a[d.at].Scope, p.a[d.at].Name), counter) {
			p.first, p.place = d.at, d.at
			return
		}
	}
	if a.Kind == "metric" && p.resumed {
		p.toStates()
	}
}

// counted is the scalar that a record reads otherwise and no field of the configuration sets, such as lr: the loop takes it off a tensor in the scope
// of that name, and the first Call to read that is later.
func (p *pair) counted(a *trace.Record) string {
	in := scalarDiffers(a, &p.b[p.match[p.first]])
	if in == nil || fieldOf(p.differences, in.Name) != nil {
		return ""
	}
	return in.Name
}

// toStates moves a first mismatch of the fingerprint of all state to where it shows what it read: which state a restore left otherwise.
func (p *pair) toStates() {
	for i := p.first; i < len(p.a); i++ {
		a, j := &p.a[i], p.match[i]
		if j >= 0 && a.Kind == "metric" && a.Name == "state" && len(a.In) > 0 && len(p.b[j].In) == len(a.In) {
			p.first, p.place = i, i
			return
		}
	}
}

// shown tells whether what wrote the memory wrote the same in both runs, as far as both have it: a restore is one run's alone.
func (d *disturbance) shown(p *pair) bool {
	wrote := &d.records[d.wrote]
	for i, j := range p.match {
		if j >= 0 && (d.inA && p.a[i].Seq == wrote.Seq || !d.inA && p.b[j].Seq == wrote.Seq) {
			return sigsEqual(p.a[i].Out, p.b[j].Out)
		}
	}
	return wrote.Phase == "load"
}
