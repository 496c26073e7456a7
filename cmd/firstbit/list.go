package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"firstbit/experiments"
	"firstbit/inject"
	"firstbit/run"
)

func listCommand() *cobra.Command {
	var f trainFlags
	var faults, calls bool
	c := &cobra.Command{
		Use:   "list",
		Short: "The catalog of root causes, the faults that can be injected, the Calls of a run and their plans",
		Long: "The catalog of root causes, or the faults that can be injected, or every Call of the first step of the run that flags of train make, with\n" +
			"its kernel, phase and plan.",
		Example: "  firstbit list\n  firstbit list --faults\n  firstbit list --calls --preset small --layout dp=2,tp=2 --json",
	}
	f.add(c)
	c.Flags().BoolVar(&faults, "faults", false, "document each kind of fault")
	c.Flags().BoolVar(&calls, "calls", false, "list every Call of a run")
	c.RunE = func(c *cobra.Command, _ []string) error {
		out := c.OutOrStdout()
		var err error
		c.Flags().Visit(func(flag *pflag.Flag) {
			if err == nil && !calls && flag.Name != "faults" && flag.Name != "json" {
				err = fmt.Errorf("--%s: needs --calls", flag.Name)
			}
		})
		switch {
		case err != nil:
			return err
		case calls:
			return f.listCalls(c, out)
		case f.json:
			return printJSON(out, map[string]any{"causes": experiments.Causes(), "faults": inject.Kinds(), "where": inject.Where()})
		case faults:
			fmt.Fprintln(out, inject.Where())
			for _, k := range inject.Kinds() {
				fmt.Fprintf(out, "%s\n  e.g. %s\n", k.Syntax, k.Example)
			}
			return nil
		}
		for _, cause := range experiments.Causes() {
			fmt.Fprintf(out, "%-18s %s  %s\n", cause.ID, cause.Part, cause.Title)
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
				list[i].Choices[item] = k.Plan.Allowed(item)
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
