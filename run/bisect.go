package run

import (
	"fmt"

	"firstbit/tune"
)

// Released is whether a run with another release of the library is the run with the first of two.
type Released struct {
	Library   string `json:"library"`
	Identical bool   `json:"identical"`
}

// BisectLibrary halves the releases from run A's to run B's until two neighbours remain of which the first has run A's bits and the second has not,
// and makes these two the pair, with all else as run A has it. It says what was tried, in that order. If not even the last release moves a bit the
// pair is run A and that one.
func (p *Pair) BisectLibrary() (tried []Released, err error) {
	names, err := tune.Between(p.Specs[0].Library, p.Specs[1].Library)
	if err != nil {
		return nil, err
	}
	if len(names) == 1 {
		return nil, fmt.Errorf("both runs have library %s: must be two releases", names[0])
	}
	of := func(name string) Spec {
		s := p.Specs[0]
		s.Library = name
		return s
	}
	same := func(i int) (bool, error) {
		ok, err := (&Pair{Specs: [2]Spec{p.Specs[0], of(names[i])}}).Same()
		tried = append(tried, Released{names[i], ok})
		return ok, err
	}
	low, high := 0, len(names)-1 // low has run A's bits, and high has not
	ok, err := same(high)
	if err != nil || ok {
		p.Specs[1] = of(names[high])
		return tried, err
	}
	for high-low > 1 {
		mid := (low + high) / 2
		if ok, err = same(mid); err != nil {
			return tried, err
		}
		if ok {
			low = mid
		} else {
			high = mid
		}
	}
	p.Specs = [2]Spec{of(names[low]), of(names[high])}
	return tried, nil
}
