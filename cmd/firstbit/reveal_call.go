package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"firstbit/experiments"
	"firstbit/run"
	"firstbit/spell"
)

// calls reveals sums of Calls of a run, and prints them.
func (r *revealing) calls(out io.Writer, fs *pflag.FlagSet, glob string) error {
	for _, name := range []string{"n", "elements", "node"} {
		if fs.Changed(name) {
			return fmt.Errorf("--%s: is for a KERNEL: %s", name, spell.OneOf(glob, experiments.RevealNames()))
		}
	}
	for _, name := range ownOutputs {
		if fs.Changed(name) && name != "json" {
			return fmt.Errorf("--%s: reveal writes no files", name)
		}
	}
	s, err := r.spec(fs.Changed)
	if err != nil {
		return err
	}
	r.at.Path, r.at.Element = glob, r.kernel.Element
	all, err := run.RevealCalls(s, r.at)
	switch {
	case err != nil && !strings.ContainsAny(glob, ".*?"): // what has no scope may be meant for a kernel
		return fmt.Errorf("%w; of kernels by themselves: %s", err, spell.OneOf(glob, experiments.RevealNames()))
	case err != nil:
		return err
	case !r.json:
		return printRevealedSums(out, all, r.full)
	}
	list := make([]map[string]any, len(all))
	for i, r := range all {
		list[i] = revealedSumJSON(r)
	}
	return printJSON(out, map[string]any{"sums": list})
}

func revealedSumJSON(r run.RevealedSum) map[string]any {
	v := revealedJSON(r.Revealed)
	v["call"], v["phase"], v["kernel"], v["plan"], v["sum"] = r.Site.Path, r.Site.Phase, r.Kernel, r.Plan, r.Sum
	v["leaves"], v["present"], v["operand"], v["by"], v["planned"] = r.Leaves, r.Present, r.Operand, r.By, r.Planned
	return v
}

// printRevealedSums is the tree of one sum, and a line for each of several.
func printRevealedSums(out io.Writer, all []run.RevealedSum, full bool) error {
	if len(all) == 1 {
		r := all[0]
		what := fmt.Sprintf("%s %s (%s)", r.Site.Phase, r.Site.Path, r.Kernel)
		if r.Sum != "" {
			what += fmt.Sprintf(", sum %s by plan %q", r.Sum, r.Plan)
		}
		printRevealed(out, what, r.Leaves, r.Revealed, full)
		if r.Operand != "" {
			fmt.Fprintf(out, "its leaves are %s of %s, %d of %d; as planned: %s\n", r.By, r.Operand, len(r.Present), r.Leaves, asPlanned(r))
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "phase\tCall\tkernel\tsum\tleaves\tasked\tby\tclass\tverified\tas planned")
	for _, r := range all {
		by := ""
		if r.Operand != "" {
			by = r.By + " of " + r.Operand
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%v\t%v\n", r.Site.Phase, r.Site.Path, r.Kernel, r.Sum, r.Leaves, len(r.Present), by, r.Class, r.Verified, asPlanned(r))
	}
	return w.Flush()
}

func asPlanned(r run.RevealedSum) string {
	if r.Planned == nil {
		return "-"
	}
	return strconv.FormatBool(*r.Planned)
}
