package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"firstbit/experiments"
	"firstbit/inject"
)

func listCommand() *cobra.Command {
	var asJSON, faults bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "The catalog of root causes, and the faults that can be injected",
		Example: "  firstbit list\n  firstbit list --faults",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&faults, "faults", false, "document each kind of fault")
	c.RunE = func(c *cobra.Command, _ []string) error {
		out := c.OutOrStdout()
		if asJSON {
			return printJSON(out, map[string]any{"causes": experiments.Causes(), "faults": inject.Kinds(), "where": inject.Where()})
		}
		if faults {
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
