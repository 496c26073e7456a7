package swarm

import (
	"slices"

	"firstbit/trace"
)

// Answer is one right answer.
type Answer struct {
	Verdict string `json:"verdict"`
	Name    string `json:"name"`
	Rank    int    `json:"rank"`
	Step    int    `json:"step"`
	Micro   int    `json:"micro"`
	Phase   string `json:"phase"`
	Class   string `json:"class"`
}

// kind is one kind of case: what it needs, how it is drawn, and what is right to say of it.
type kind struct {
	name string
	share
	needs
	// draw makes a case of what both runs are: the fault, its Call and whatever else there is to draw. It may look at run A's trace, and says
	// whether there is such a case.
	draw func(d die, c *Case, b *bench) bool
	// answers are all that is right to say, by what the two traces hold; none: the fault cannot be seen in them.
	answers func(c *Case, l *ledger) []Answer
	// mute are verdicts that name nothing and are as right: they say what is missing.
	mute []string
	// outside tells that the fault is not in what was traced, so that abstaining counts against nobody.
	outside bool
}

// share is how often a kind is drawn, of the sum of all.
type share int

// kinds are all kinds of cases. Those of one fault come first, in order of appearance of inject's.
var kinds []*kind

func init() { // the table refers to functions that look into it
	kinds = []*kind{
		{name: "flip", share: 1, draw: flips(""), answers: written("hardware")},
		{name: "rest", share: 1, draw: flips(atRestWords), answers: atRest},
		{name: "set", share: 1, draw: values, answers: written("hardware")},
		{name: "drop", share: 1, draw: drops, answers: written("hardware")},
		{name: "unwritten", share: 1, draw: unwritten, answers: written("hardware")},
		{name: "repeat", share: 1, draw: repeats, answers: again},
		{name: "stale", share: 1, draw: stale, answers: written("hardware")},
		{name: "early", share: 1, draw: reads("early"), answers: read},
		{name: "late", share: 1, draw: reads("late"), answers: read},
		{name: "order", share: 1, draw: orders, answers: written("tuner")},
		{name: "arrival", share: 1, draw: arrivals, answers: arrived},
		{name: "alias", share: 1, draw: aliases, answers: aliased},
		{name: "live", share: 1, needs: needs{recomputes: true}, draw: lives, answers: written("state")},
		{name: "rebuild", share: 1, needs: needs{quantised: true}, draw: rebuilds, answers: written("hardware")},
		{name: "draw", share: 1, needs: needs{streams: true}, draw: moves("draw"), answers: moved("iterator")},
		{name: "seed", share: 1, needs: needs{streams: true}, draw: moves("seed"), answers: moved("seed")},
		{name: "load.flip", share: 1, draw: loadFlips, answers: loadFlipped},
		{name: "load.drop", share: 1, draw: restores("drop", states, ""), answers: restored},
		{name: "load.set", share: 1, draw: sets, answers: restored},
		{name: "load.copy", share: 1, needs: needs{steps: 3}, draw: copies, answers: restored},
		{name: "load.draw", share: 1, needs: needs{streams: true}, draw: restores("draw", streams, " when=after"), answers: disturbed("iterator")},
		{name: "load.seed", share: 1, needs: needs{streams: true}, draw: restores("seed", streams, " when=after"), answers: disturbed("seed")},
		{name: "alone", share: 1, draw: alone, answers: aloneAnswers},
		{name: "two", share: 1, draw: pairs, answers: nil},
		{name: "outside", share: 1, needs: needs{steps: 3}, draw: earlier, mute: []string{"outside-window"}, outside: true},
		{name: "untraced", share: 1, needs: needs{ranks: true}, draw: elsewhere, mute: []string{"unresolved"}, outside: true},
		{name: "distorted", share: 3, draw: distorts, answers: throughDistortion, mute: abstentions, outside: true},
		{name: "clean", share: 3, draw: cleans},
	}
}

// Kinds are the names of all kinds.
func Kinds() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func kindOf(name string) *kind {
	i := slices.IndexFunc(kinds, func(k *kind) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// deal is the kind of a case of a swarm: each comes as often as its share, one after another.
func deal(i int) *kind {
	total := 0
	for _, k := range kinds {
		total += int(k.share)
	}
	for i %= total; ; {
		for _, k := range kinds {
			if i -= int(k.share); i < 0 {
				return k
			}
		}
	}
}

func answer(verdict, class string, r *trace.Record) Answer {
	return Answer{verdict, trace.Path(r.Scope, r.Name), r.Rank, r.Iteration, r.Microbatch, r.Phase, class}
}

func answersOf(verdict, class string, records []*trace.Record) (answers []Answer) {
	for _, r := range records {
		answers = append(answers, answer(verdict, class, r))
	}
	return answers
}

// written is right where outputs are other than what the Call computes by what it read.
func written(class string) func(c *Case, l *ledger) []Answer {
	return func(c *Case, l *ledger) []Answer { return answersOf("origin", class, l.wrote(&c.Faults[0])) }
}
