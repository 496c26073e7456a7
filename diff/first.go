package diff

import "firstbit/trace"

// findFirst reads run A in the order of execution. A record that only B has counts as
// standing right after the last record before it that both have.
func (p *pair) findFirst() {
	p.first = p.mismatch(0, false)
	p.setStraysAside()
	if p.level >= trace.Op && p.first < len(p.a) && p.a[p.first].Kind == "module" && p.match[p.first] >= 0 {
		// Every Call within wrote the same. What its output lies in changed since: the next Call that reads it says so.
		if reader := p.mismatch(p.first+1, true); reader < len(p.a) {
			p.first = reader
		}
	}
	p.place = p.first
	if len(p.onlyB) == 0 {
		return
	}
	j := p.onlyB[0]
	after := -1
	for i := range p.a {
		if p.match[i] >= 0 && p.match[i] < j {
			after = max(after, i)
		}
	}
	if after < p.first {
		p.extraB, p.place = j, after+1
	}
}

// mismatch is the first record from number from on that differs, or of those alone that are no module's boundary. A flagged one, whose bytes
// nobody is to read, counts where nothing else differs; one that moves a random stream in one run alone is judged on what reads the stream.
func (p *pair) mismatch(from int, inner bool) int {
	flagged := len(p.a)
	for i := from; i < len(p.a); i++ {
		a, j := &p.a[i], p.match[i]
		switch {
		case inner && a.Kind == "module", j < 0 && movesAStream(a):
		case j >= 0 && !differs(a, &p.b[j]):
		case j >= 0 && len(a.Flags)+len(p.b[j].Flags) > 0 && sigsEqual(a.In, p.b[j].In):
			flagged = min(flagged, i)
		default:
			return i
		}
	}
	return flagged
}
