package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"firstbit/experiments"
	"firstbit/inject"
	"firstbit/run"
)

func listCommand() *cobra.Command {
	var f trainFlags
	var faults, calls, long bool
	c := &cobra.Command{
		Use:   "list [CAUSE…]",
		Short: "The catalog of root causes, the faults that can be injected, the Calls of a run and their plans",
		Long: "The catalog of root causes, or what there is to know of some, or the faults that can be injected, or every Call of the first step of the run that flags of train make, with\n" +
			"its kernel, phase and plan.",
		Example: "  firstbit list\n  firstbit list dprob-atomics\n  firstbit list --faults\n  firstbit list --calls --preset small --layout dp=2,tp=2 --json",
	}
	c.Args = cobra.ArbitraryArgs
	f.add(c)
	c.Flags().BoolVar(&long, "long", false, "symptom, cause, diagnosis, cure and source of each")
	c.Flags().BoolVar(&faults, "faults", false, "document each kind of fault")
	c.Flags().BoolVar(&calls, "calls", false, "list every Call of a run")
	c.RunE = func(c *cobra.Command, args []string) error {
		out := c.OutOrStdout()
		var err error
		c.Flags().Visit(func(flag *pflag.Flag) {
			if err == nil && !calls && flag.Name != "faults" && flag.Name != "json" && flag.Name != "long" {
				err = fmt.Errorf("--%s: needs --calls", flag.Name)
			}
		})
		if err == nil && (faults || calls) && (long || len(args) > 0) {
			err = fmt.Errorf("--faults and --calls: are about no cause: must stand without --long and names of causes")
		}
		switch {
		case err != nil:
			return err
		case calls:
			return f.listCalls(c, out)
		}
		causes, err := selected(args)
		switch {
		case err != nil:
			return fmt.Errorf("list: %w", err)
		case f.json:
			return printJSON(out, map[string]any{"causes": causes, "faults": inject.Kinds(), "where": inject.Where()})
		case faults:
			listFaults(out)
		case long || len(args) > 0:
			listLong(out, causes)
		default:
			for _, cause := range causes {
				fmt.Fprintf(out, "%-19s %s  %s\n", cause.ID, cause.Part, cause.Title)
			}
		}
		return nil
	}
	return c
}

// callJSON is a Call with what its plan may be.
type callJSON struct {
	Name    string              `json:"name"`
	Kernel  string              `json:"kernel"`
	Phase   string              `json:"phase"`
	Plan    string              `json:"plan"`
	Choices map[string][]string `json:"choices"`
}

func (f *trainFlags) listCalls(c *cobra.Command, out io.Writer) error {
	for _, name := range ownOutputs {
		if c.Flags().Changed(name) && name != "json" {
			return fmt.Errorf("--%s: list writes no files", name)
		}
	}
	s, err := f.spec(c.Flags().Changed)
	if err != nil {
		return err
	}
	calls, err := run.Calls(s)
	if err != nil {
		return err
	}
	if f.json {
		list := make([]callJSON, len(calls))
		for i, k := range calls {
			list[i] = callJSON{k.Name, k.Kernel, k.Phase.String(), k.Plan.String(), map[string][]string{}}
			for _, item := range k.Plan.Names() {
				list[i].Choices[item] = slices.Clone(k.Plan.Allowed(item))
				for _, arch := range k.MMA[item] {
					list[i].Choices[item] = append(list[i].Choices[item], "mma("+arch+")")
				}
			}
		}
		return printJSON(out, map[string]any{"calls": list})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, k := range calls {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.Phase, k.Name, k.Kernel, k.Plan)
	}
	return w.Flush()
}

func listFaults(out io.Writer) {
	fmt.Fprintln(out, inject.Where())
	for _, k := range inject.Kinds() {
		fmt.Fprintf(out, "%s\n  e.g. %s\n", k.Syntax, k.Example)
	}
}

func listLong(out io.Writer, causes []*experiments.Cause) {
	for i, c := range causes {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s: %s\n", c.ID, c.Title)
		only := ""
		if c.Only != "" {
			only = ": " + c.Only
		}
		for _, line := range [][2]string{{"symptom", c.Symptom}, {"cause", c.Cause}, {"diagnosis", c.Diagnose}, {"cure", c.Cure}, {"source", c.Source}, {"reference", c.Reference.String()},
			{"layouts", strings.Join(c.Layouts, "  ")}, {"precisions", strings.Join(c.Precisions, " ") + only}, {"show", "firstbit reproduce " + c.ID}} {
			if line[1] != "" {
				fmt.Fprintf(out, "  %-10s  %s\n", line[0], line[1])
			}
		}
	}
}
