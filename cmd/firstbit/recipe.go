package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

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
		return expose(args[0], settings, to, asJSON, c.OutOrStdout())
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

func expose(file string, env []recipe.Setting, to string, asJSON bool, out io.Writer) error {
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
	tell(out, "read         \t%d arguments: %d mapped, %d that choose no bits, %d not mapped", len(r.Arguments), len(r.Arguments)-r.Harmless-r.Unmapped, r.Harmless, r.Unmapped)
	tell(out, "small        \t%s in %s on %s, %d microbatches of %d", m.Pattern, v.Config.Precision, v.Layout, v.Config.Micro, v.Config.Batch)
	if !wrote {
		tell(out, "             \t-o %s writes it for the commands below", name)
	}
	for _, x := range v.Rejected {
		tell(out, "rejected     \t%s: %s; %s", x.Argument, x.Why, x.Set)
	}
	for _, u := range v.Unknown {
		tell(out, "unknown      \t%s: %s", u.Argument, u.Why)
	}
	for _, e := range v.Exposures {
		ranks := "ranks"
		if e.FromRanks == 1 {
			ranks = "rank"
		}
		tell(out, "\n%s, from %d %s: %s", e.Cause, e.FromRanks, ranks, e.Why)
		for i, command := range []string{e.Show, e.Cure} {
			fmt.Fprintf(out, "  # %s\n", []string{"shows it", "cures it"}[i])
			fmt.Fprintln(out, "  "+strings.NewReplacer(" --a ", " \\\n    --a ", " --b ", " \\\n    --b ").Replace(command))
		}
	}
	if len(v.Exposures) == 0 {
		tell(out, "\nno cause of the catalog that arguments or environment decide")
	}
	tell(out, "\nnot decided by arguments, and in what the recipe uses; firstbit reproduce CAUSE shows each")
	for _, kind := range recipe.Kinds() {
		var ids []string
		for _, b := range v.Beyond {
			if b.Applies && b.Kind == kind.Name {
				ids = append(ids, b.Cause)
			}
		}
		tell(out, "%-12s \t%s: %s", kind.Name, kind.Is, strings.Join(ids, ", "))
	}
}
