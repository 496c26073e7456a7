package diff

import (
	"fmt"
	"slices"

	"firstbit/trace"
)

// A draw, or a seeding, that one run has alone moves a random stream. Whether it matters shows in what reads the stream: nobody does, or another
// restore comes after it, and it is harmless.

// stray is such a record.
type stray struct {
	inA      bool
	at       int  // in the records of that run
	explains bool // what differs first read the stream as it left it
	harmless []*trace.Record
}

// movesAStream tells a record that leaves a random stream in another state than it found it, and computes nothing for training.
func movesAStream(r *trace.Record) bool {
	named := func(g trace.Sig) bool { return g.Name == "stream" }
	return (r.Kind == "draw" || r.Kind == "load") && slices.ContainsFunc(r.In, named) && slices.ContainsFunc(r.Out, named)
}

// setStraysAside takes what moves streams in run B alone out of the records that A lacks, and finds the one that explains the first mismatch.
func (p *pair) setStraysAside() {
	var alone []stray
	for i, j := range p.match {
		if j < 0 && movesAStream(&p.a[i]) {
			alone = append(alone, stray{inA: true, at: i})
		}
	}
	p.onlyB = slices.DeleteFunc(p.onlyB, func(j int) bool {
		if movesAStream(&p.b[j]) {
			alone = append(alone, stray{at: j})
			return true
		}
		return false
	})
	for _, s := range alone {
		if s.explains = p.read(s); s.explains {
			p.stray = s
			if s.inA {
				p.first = s.at
			} else {
				p.extraB = s.at
			}
			return
		}
	}
	for _, s := range alone {
		p.stray.harmless = append(p.stray.harmless, p.strayRecord(s))
	}
}

func (p *pair) strayRecord(s stray) *trace.Record {
	if s.inA {
		return &p.a[s.at]
	}
	return &p.b[s.at]
}

// read tells whether the first mismatch reads the stream that a record left. The fingerprint of all state reads it too, where it shows what it
// read.
func (p *pair) read(s stray) bool {
	if p.first == len(p.a) || p.match[p.first] < 0 {
		return false
	}
	first := &p.a[p.first]
	if p.reads(s, p.first) {
		return true
	}
	for i := p.first + 1; i < len(p.a) && isFingerprint(first); i++ { // which shows that something differs, and not what
		j := p.match[i]
		switch {
		case j < 0 || !differs(&p.a[i], &p.b[j]):
		case p.reads(s, i):
			return true
		case p.a[i].Kind != "metric":
			return false
		}
	}
	return false
}

func isFingerprint(r *trace.Record) bool { return r.Kind == "metric" && r.Name == "state" }

// reads tells whether a record of both runs reads the stream, with other bits.
func (p *pair) reads(s stray, at int) bool {
	r := p.strayRecord(s)
	a, b := &p.a[at], &p.b[p.match[at]]
	reader := b
	if s.inA {
		reader = a
	}
	for i, g := range reader.In {
		if g.From == nil || i < len(a.In) && i < len(b.In) && sigEqual(&a.In[i], &b.In[i]) {
			continue
		}
		if phase, path := producerOf(*g.From); phase == r.Phase && path == trace.Path(r.Scope, r.Name) {
			return true
		}
	}
	return false
}

// strayVerdict is that of what moved a stream in one run alone.
func (p *pair) strayVerdict() (string, []string) {
	r := p.strayRecord(p.stray)
	run := "run B"
	if p.stray.inA {
		run = "run A"
	}
	verdict := "origin"
	if r.Phase == "load" {
		verdict = "restore"
	}
	return verdict, []string{fmt.Sprintf("only %s has %s: it moves a random stream, from which what differs then draws", run, r.Key())}
}

// strays says of records that moved a stream in one run alone that they changed nothing.
func (r *Report) strays(pairs []*pair) {
	n, rec := 0, (*trace.Record)(nil)
	for _, p := range pairs {
		for _, s := range p.stray.harmless {
			if n++; rec == nil {
				rec = s
			}
		}
	}
	if n > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("%s, which one run has alone, is harmless: no bit that differs was drawn from the stream it moved (%d such records)", rec.Key(), n))
	}
}
