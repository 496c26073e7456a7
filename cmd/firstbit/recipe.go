package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"firstbit/files"
	"firstbit/recipe"
	"firstbit/train"
)

func recipeCommand() *cobra.Command {
	var to string
	var env []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "recipe FILE",
		Short: "Read a real recipe: which causes it is exposed to, each shown and cured on a small configuration",
		Long: "Read what a job is trained with: a shell script that starts Megatron-LM, a list of its arguments, a test case of its in YAML, or a Hugging Face\n" +
			"config.json. A script is not executed: no command of it does anything, and no file is there. A configuration of the same pattern, axes of\n" +
			"parallelism, precision, overlap and recomputation is made for a laptop, and every cause that arguments or environment leave open is listed with\n" +
			"the ranks it begins at, a command that shows it on the small configuration, and one that shows the cure. What is not mapped counts as unknown.",
		Example: "  firstbit recipe train.sh -o small.json\n  firstbit recipe train.sh --env NNODES=16 --env NCCL_ALGO=Ring\n  firstbit recipe config.json --json",
		Args:    exactArgs("FILE"),
	}
	c.Flags().StringVarP(&to, "output", "o", "", "the `FILE` to write the small configuration to, which commands name")
	c.Flags().StringArrayVar(&env, "env", nil, "set a variable that the file is started with, `NAME=VALUE`")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		var settings []recipe.Setting
		for _, e := range env {
			name, value, ok := strings.Cut(e, "=")
			if !ok || name == "" {
				return fmt.Errorf("--env %q: must be NAME=VALUE", e)
			}
			settings = append(settings, recipe.Setting{Name: name, Value: value})
		}
		return explain(args[0], settings, to, asJSON, c.OutOrStdout())
	}
	return c
}

// recipeJSON is the contract of recipe --json.
type recipeJSON struct {
	Config    train.Config      `json:"config"`
	Layout    string            `json:"layout"`
	Plans     []string          `json:"plans"`
	Exposures []recipe.Exposure `json:"exposures"`
	Rejected  []recipe.Rejected `json:"rejected"`
	Unknown   []recipe.Unknown  `json:"unknown"`
	Beyond    []recipe.Beyond   `json:"beyond"`
}

func explain(file string, env []recipe.Setting, to string, asJSON bool, out io.Writer) error {
	fail := func(err error) error { return fmt.Errorf("recipe %s: %w", file, err) }
	r, err := recipe.Read(file, env)
	if err != nil {
		return fail(err)
	}
	s, err := r.Small()
	if err != nil {
		return fail(err)
	}
	name := to
	if to == "" {
		name = "small.json"
	}
	v := recipeJSON{Config: s.Config, Layout: s.Layout.String(), Plans: append([]string{}, s.Plans...), Rejected: r.Rejected(), Unknown: append([]recipe.Unknown{}, r.Unknown...), Beyond: r.Beyond()}
	if v.Exposures, err = r.Exposures(s, name); err != nil {
		return fail(err)
	}
	if to != "" {
		text, err := json.MarshalIndent(s.Config, "", "  ")
		if err == nil {
			err = os.WriteFile(to, append(text, '\n'), 0o666)
		}
		if err != nil {
			return fmt.Errorf("-o %s: %w", to, files.Reason(err))
		}
	}
	if asJSON {
		return printJSON(out, v)
	}
	v.print(out, r, name, to != "")
	return nil
}

func (v recipeJSON) print(out io.Writer, r *recipe.Recipe, name string, wrote bool) {
	m := v.Config.Model
	fmt.Fprintf(out, "read         %d arguments, %d mapped, %d without effect on bits; %d unknown\n", len(r.Arguments), len(r.Arguments)-r.Harmless-r.Unmapped, r.Harmless, len(v.Unknown))
	fmt.Fprintf(out, "small        %s in %s on %s, %d microbatches of %d", m.Pattern, v.Config.Precision, v.Layout, v.Config.Micro, v.Config.Batch)
	if !wrote {
		fmt.Fprintf(out, "; -o %s writes it", name)
	}
	fmt.Fprintln(out)
	for _, x := range v.Rejected {
		fmt.Fprintf(out, "rejected     %s: %s; %s\n", x.Argument, x.Why, x.Set)
	}
	for _, u := range v.Unknown {
		fmt.Fprintf(out, "unknown      %s: %s\n", u.Argument, u.Why)
	}
	for _, e := range v.Exposures {
		fmt.Fprintf(out, "\n%s, from %d ranks\n  %s\n  show  %s\n  cure  %s\n", e.Cause, e.FromRanks, e.Why, e.Show, e.Cure)
	}
	if len(v.Exposures) == 0 {
		fmt.Fprintln(out, "\nno cause of the catalog that arguments or environment decide")
	}
	fmt.Fprintln(out, "\nnot decided by arguments; firstbit reproduce CAUSE shows each")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, b := range v.Beyond {
		if b.Applies {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", b.Cause, b.Kind, b.Why)
		}
	}
	w.Flush()
}
