package diff

import (
	"fmt"
	"maps"
	"strings"

	"firstbit/trace"
)

// NotComparable is an error about the pair, not about one trace.
type NotComparable struct{ why string }

// Error says why.
func (e NotComparable) Error() string { return e.why }

// Compare aligns two traces and reads the first mismatch.
func Compare(a, b *trace.Trace) (*Report, error) {
	if err := oneLayout(a, b); err != nil {
		return nil, err
	}
	level, err := commonLevel(a, b)
	if err != nil {
		return nil, err
	}
	w, shared, err := commonWindow(a, b)
	if err != nil {
		return nil, err
	}
	shared.addRanks(a, b)
	r := &Report{Identical: true, Shared: &shared, Truncated: truncatedText(a, b), ConfigDifferences: configDifferences(a.Raw, b.Raw), Action: "none",
		Evidence: []string{}, Roots: []Finding{}, Ranks: []RankVerdict{}}
	inA, inB := heldIn(a), heldIn(b)
	var found []*pair
	otherPieces := 0
	for _, ra := range a.Ranks {
		for _, rb := range b.Ranks {
			if ra.Rank == rb.Rank {
				ra.Records, rb.Records = w.of(ra.Records), w.of(rb.Records)
				ra.Records, rb.Records = r.overlapAlike(ra.Records, rb.Records)
				wholeA, wholeB := upTo(ra.Records, level), upTo(rb.Records, level)
				ra, rb, from := common(ra, rb)
				n := len(ra.Records) + len(rb.Records)
				ra, rb = samePieces(ra, rb, inA, inB)
				otherPieces += n - len(ra.Records) - len(rb.Records)
				p := align(ra, rb, level)
				p.window, p.resumed, p.differences = w, from > 0 && w.steps[from], r.ConfigDifferences
				p.disturb(wholeA, wholeB)
				found = append(found, p)
				r.count(p)
			}
		}
	}
	if len(found) == 0 {
		return nil, NotComparable{"the traces have no rank in common"}
	}
	r.judge(found, a.Run.Groups, a.Run.Schedule == b.Run.Schedule && a.Run.Schedule != "" && a.Run.Schedule != "real")
	if otherPieces > 0 {
		r.LeftOut = otherPieces
		r.Evidence = append(r.Evidence, fmt.Sprintf("%d records of states were left out: the ranks have other pieces of them in the two runs", otherPieces))
	}
	return r.end(), nil
}

// oneLayout refuses traces whose records do not stand for the same work.
func oneLayout(a, b *trace.Trace) error {
	if err := oneSchema(a, b); err != nil {
		return err
	}
	if a.Run.Layout != b.Run.Layout {
		return NotComparable{fmt.Sprintf("layouts differ: %q and %q: diff --layouts compares what they share", a.Run.Layout, b.Run.Layout)}
	}
	return nil
}

// oneSchema refuses traces whose digests mean different things.
func oneSchema(a, b *trace.Trace) error {
	if a.Run.SchemaVersion != b.Run.SchemaVersion {
		return NotComparable{fmt.Sprintf("schema versions differ: %d and %d: digests of different definitions cannot be compared", a.Run.SchemaVersion, b.Run.SchemaVersion)}
	}
	if !maps.Equal(definitions(a, b), definitions(b, a)) {
		return NotComparable{"digests are defined otherwise in the two traces: run.json says how"}
	}
	return nil
}

// commonLevel is the shallower of the two levels: only what both looked at is compared.
func commonLevel(a, b *trace.Trace) (trace.Level, error) {
	la, err := trace.ParseLevel(a.Run.Level)
	if err != nil {
		return 0, fmt.Errorf("trace %s: %w", a.Dir, err)
	}
	lb, err := trace.ParseLevel(b.Run.Level)
	if err != nil {
		return 0, fmt.Errorf("trace %s: %w", b.Dir, err)
	}
	return min(la, lb), nil
}

// pair is one rank's two lists of records, aligned by key.
type pair struct {
	rank   int
	level  trace.Level
	a, b   []trace.Record
	match  []int // for each record of a, its index in b, or −1
	onlyB  []int // records of b that a lacks
	first  int   // index in a of the first mismatch; len(a) if none
	extraB int   // index in b of a record a lacks that comes before first, or −1
	stray  stray // what moved a random stream in one run alone
	place  int   // index in a of what comes next after that record; else first
	byPath map[string][]int

	window    *window
	resumed   bool // one of them continued from a checkpoint, and records begin right after it
	disturbed []disturbance

	differences []Field // of the configurations
}

func align(ra, rb trace.Rank, level trace.Level) *pair {
	p := &pair{rank: ra.Rank, level: level, a: upTo(ra.Records, level), b: upTo(rb.Records, level), extraB: -1}
	at := make(map[trace.Key]int, len(p.b))
	for i := range p.b {
		at[p.b[i].Key()] = i
	}
	used := make([]bool, len(p.b))
	p.match = make([]int, len(p.a))
	p.byPath = map[string][]int{}
	for i := range p.a {
		p.match[i] = -1
		if j, ok := at[p.a[i].Key()]; ok {
			p.match[i] = j
			used[j] = true
		}
		if k := p.a[i].Kind; k != "module" && k != "kernel" {
			from := p.a[i].Phase + " " + trace.Path(p.a[i].Scope, p.a[i].Name)
			p.byPath[from] = append(p.byPath[from], i)
		}
	}
	for j := range p.b {
		if !used[j] {
			p.onlyB = append(p.onlyB, j)
		}
	}
	p.findFirst()
	return p
}

// upTo keeps the records a level has.
func upTo(records []trace.Record, level trace.Level) []trace.Record {
	kept := records[:0:0]
	for _, r := range records {
		if trace.LevelOf(r.Kind) <= level {
			kept = append(kept, r)
		}
	}
	return kept
}

// differs compares what was read and written. The fingerprint of all state shows what it read where a window begins and ends alone, so that
// traces of other windows differ in it: where one does not, its number is compared.
func differs(a, b *trace.Record) bool {
	if a.Kind == "metric" && a.Name == "state" && len(a.In)*len(b.In) == 0 {
		return !sigsEqual(a.Out, b.Out)
	}
	return !sigsEqual(a.In, b.In) || !sigsEqual(a.Out, b.Out)
}

func sigsEqual(a, b []trace.Sig) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sigEqual(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// sigEqual goes by the digest, which covers dtype and shape; the XOR alone would miss
// permutations, pairs and zeros.
func sigEqual(a, b *trace.Sig) bool { return a.Name == b.Name && a.Digest == b.Digest }

func (p *pair) identical() bool { return p.first == len(p.a) && p.extraB < 0 }

func (r *Report) count(p *pair) {
	steps := map[int]bool{}
	for i := range p.a {
		if p.a[i].Iteration > 0 {
			steps[p.a[i].Iteration] = true
		}
	}
	r.Steps = max(r.Steps, len(steps))
	r.Records += len(p.a)
	r.ruledOut += p.first
}

// verdict reads the first mismatch of one rank; see docs/traces.md, Verdicts for the order of the tests.
func (p *pair) verdict(all *world) (string, []string) {
	if p.stray.explains {
		return p.strayVerdict()
	}
	if p.extraB >= 0 {
		return "missing", []string{fmt.Sprintf("only run B has %s; %s", p.b[p.extraB].Key(), p.lastCommon())}
	}
	a := &p.a[p.first]
	if p.match[p.first] < 0 {
		return "missing", []string{fmt.Sprintf("only run A has %s; %s", a.Key(), p.lastCommon())}
	}
	b := &p.b[p.match[p.first]]
	switch {
	case len(a.Flags)+len(b.Flags) > 0 && !sigsEqual(a.Out, b.Out) && sigsEqual(a.In, b.In):
		return "artifact", []string{"flagged " + strings.Join(append(a.Flags, b.Flags...), ", ") + ": these bytes are not meant to be read"}
	case a.Kind == "load" || a.Phase == "load" && p.disturbance(p.first) == nil:
		return "restore", []string{"what was restored differs: " + trace.Path(a.Scope, a.Name)}
	case a.Kind == "state":
		if p.loaded() {
			return "restore", []string{"state differs after a load: " + a.Name}
		}
		return "outside-window", []string{"state differs where the window starts: " + a.Name}
	case a.Kind == "metric" || a.Kind == "module" || a.Kind == "recompute" && sigsEqual(a.In, b.In):
		if verdict, why := p.inputsDiffer(a, b); a.Kind == "metric" && len(a.In) == len(b.In) && (verdict == "memory" || verdict == "restore") {
			return verdict, why
		}
		return "narrow", []string{a.Kind + " records name no root: its Calls lie deeper"}
	case p.disturbance(p.first) != nil:
		return "memory", p.disturbance(p.first).evidence(p)
	case sigsEqual(brought(a), brought(b)):
		return p.outputsDiffer(a, b, all)
	case all.regrouped(a, b):
		return "origin", []string{alone(a, b)}
	}
	return p.inputsDiffer(a, b)
}

func (p *pair) lastCommon() string {
	for i := p.place - 1; i >= 0; i-- {
		if p.match[i] >= 0 {
			return "the last record both have is " + p.a[i].Key().String()
		}
	}
	return "no record before it is common"
}

func (p *pair) loaded() bool {
	for i := range p.first {
		if p.a[i].Kind == "load" {
			return true
		}
	}
	return false
}

// outputsDiffer judges a record whose inputs are equal.
func (p *pair) outputsDiffer(a, b *trace.Record, all *world) (string, []string) {
	switch {
	case a.View:
		return "blind-spot", []string{"a view computes nothing: an uncaptured kernel one hop upstream wrote what it shows"}
	case overwritten(a, b) != nil:
		return "memory", []string{fmt.Sprintf("what it writes lies in the memory of its input %s, which changed while it was read", overwritten(a, b).Name)}
	case a.Kind == "collective" && a.Group != "":
		return all.collective(a)
	case receives(a):
		return all.received(a)
	}
	return "origin", []string{"all inputs equal, outputs differ"}
}
