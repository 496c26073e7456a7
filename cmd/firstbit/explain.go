package main

import (
	"fmt"
	"io"

	"firstbit/run"
)

// ruleJSON is a rule with the runs that show it.
type ruleJSON struct {
	run.Rule
	Show [2]string `json:"show"`
}

// explain prints the rules of deterministic mode, and what they refuse of a run.
func explain(s run.Spec, asJSON bool, out io.Writer) error {
	refused, err := s.Refusals()
	if err != nil {
		return err
	}
	if asJSON {
		rules := []ruleJSON{}
		for _, r := range run.Rules() {
			rules = append(rules, ruleJSON{r, [2]string{r.Show.Flags(0), r.Show.Flags(1)}})
		}
		err := printJSON(out, map[string]any{"ok": len(refused) == 0, "rules": rules, "refused": append([]run.Refusal{}, refused...)})
		if err == nil && len(refused) > 0 {
			err = outcome(exitDifferent)
		}
		return err
	}
	for _, r := range run.Rules() {
		fmt.Fprintf(out, "%s\n  refuses  %s\n  because  %s\n  set      %s\n", r.ID, r.Field, r.Why, r.Set)
		fmt.Fprintf(out, "  parts    firstbit train %s\n           firstbit train %s\n", r.Show.Flags(0), r.Show.Flags(1))
		for _, x := range refused {
			if x.Rule == r.ID {
				fmt.Fprintf(out, "  here     %s: %s (%s)%s, %d×\n", x.Argument, x.Call, x.Kernel, x.By(), x.Calls)
			}
		}
	}
	if len(refused) == 0 {
		_, err = fmt.Fprintln(out, "nothing of this run is refused")
		return err
	}
	fmt.Fprintln(out, "this run is refused: see the lines that begin with here")
	return outcome(exitDifferent)
}
