package report

import (
	"fmt"
	"strings"

	"firstbit/diff"
	"firstbit/experiments"
	"firstbit/run"
)

// OfFlags is the pair of runs that flags of train make, as localize runs it.
func OfFlags(p *run.Pair, flags [2]string) *Pair {
	return &Pair{Specs: p.Specs, Runs: flags, Trace: p.Trace, Localize: diff.Localize,
		Command: fmt.Sprintf("firstbit report --a %s --b %s -o report.html", Quoted(flags[0]), Quoted(flags[1]))}
}

// OfCause is the pair that a cause of the catalog makes differ, for so many steps from where its runs begin; 0: to the last. dir is for what the
// runs write.
func OfCause(id string, steps int, dir string) (*Pair, error) {
	c, err := experiments.Find(id)
	if err != nil {
		return nil, err
	}
	if c.Across() {
		return nil, fmt.Errorf("cause %q: its two runs have two layouts: must be one whose pair has one", id)
	}
	if most := c.Config().Steps - c.Stop(); steps < 0 || steps > most {
		return nil, fmt.Errorf("steps %d: must be from 1 to %d of %s, or 0 for all", steps, most, id)
	}
	runs, err := c.Runs(dir)
	if err != nil {
		return nil, err
	}
	command := "firstbit report --cause " + c.ID
	if steps > 0 {
		command += fmt.Sprintf(" --steps %d", steps)
		for side := range runs.Pair {
			runs.Pair[side].Until = c.Stop() + steps
		}
	}
	return &Pair{Specs: runs.Pair, Runs: c.Vary(), Trace: runs.Trace, Localize: c.Localize, Command: command + " -o report.html"}, nil
}

// Quoted is a text as a word of a shell.
func Quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
