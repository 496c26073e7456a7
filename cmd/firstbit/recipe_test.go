package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mattn/go-shellwords"
	"github.com/stretchr/testify/require"

	"firstbit/experiments"
	"firstbit/recipe"
)

// The exhaustive forms of tests take minutes: `make matrix`.
var matrix = flag.Bool("matrix", false, "run tests in their exhaustive forms")

const recipeData = "../../recipe/testdata/"

// exposed are the exposures that recipe prints of a file, with the small configuration written into dir.
func exposed(t *testing.T, file, dir string) (list []recipe.Exposure) {
	t.Helper()
	small := filepath.Join(dir, filepath.Base(file)+".json")
	code, out, errs := firstbit(t, "recipe", file, "-o", small, "--json")
	require.Zero(t, code, errs)
	for _, e := range jsonOf(t, out)["exposures"].([]any) {
		m := e.(map[string]any)
		list = append(list, recipe.Exposure{Cause: m["cause"].(string), FromRanks: int(m["from_ranks"].(float64)), Show: m["show"].(string), Cure: m["cure"].(string)})
	}
	return list
}

// performed runs a command that recipe printed.
func performed(t *testing.T, command string) (code int, out, errs string) {
	t.Helper()
	words, err := shellwords.Parse(command)
	require.NoError(t, err)
	require.Equal(t, "firstbit", words[0])
	return firstbit(t, append(words[1:], "--json")...)
}

// Each command that recipe prints parts the pair, at the Call that the catalog names by its kind; with the cure it does not. All of all
// recipes with -matrix, and otherwise three of one: a plan in the format of the weights, several plans, and two that differ.
func TestRecipeCommands(t *testing.T) {
	files := []string{recipeData + "mamba-hybrid.sh"}
	if *matrix {
		var err error
		files, err = filepath.Glob(recipeData + "*")
		require.NoError(t, err)
	}
	for _, file := range files {
		dir := t.TempDir()
		for _, e := range exposed(t, file, dir) {
			if !*matrix && !slices.Contains([]string{"embedding-scatter"}, e.Cause) {
				continue
			}
			t.Run(filepath.Base(file)+"/"+e.Cause, func(t *testing.T) {
				t.Parallel()
				code, out, errs := performed(t, e.Show)
				require.Equal(t, exitDifferent, code, "%s\n%s", e.Show, errs)
				c, err := experiments.Find(e.Cause)
				require.NoError(t, err)
				require.Equal(t, c.Class, jsonOf(t, out)["class"], e.Show)
				code, _, errs = performed(t, e.Cure)
				require.Equal(t, exitSame, code, "%s\n%s", e.Cure, errs)
			})
		}
	}
}

var public = regexp.MustCompile(`(?m)^# The arguments of (\S+)$`)

// recipesTable has what recipe says of the arguments of public scripts.
func recipesTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| input | arguments of | arguments: mapped, without bits, not mapped | small | exposed to | rejected | unknown |\n|---|---|---|---|---|---|---|\n")
	files, err := filepath.Glob("recipe/testdata/*.sh")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		of := public.FindSubmatch(text)
		if of == nil {
			continue
		}
		r, err := recipe.Read(file, nil)
		require.NoError(t, err)
		s, err := r.Small()
		require.NoError(t, err)
		exposures, err := r.Exposures(s, "small.json")
		require.NoError(t, err)
		var causes, rejected, unknown []string
		for _, e := range exposures {
			causes = append(causes, e.Cause)
		}
		for _, x := range r.Rejected() {
			rejected = append(rejected, "`"+x.Argument+"`")
		}
		for _, u := range r.Unknown {
			unknown = append(unknown, "`"+u.Argument+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %d: %d, %d, %d | `%s` in %s on %s | %s | %s | %s |\n", filepath.Base(file), of[1], len(r.Arguments),
			len(r.Arguments)-r.Harmless-r.Unmapped, r.Harmless, r.Unmapped, s.Config.Model.Pattern, s.Config.Precision, s.Layout,
			strings.Join(causes, ", "), strings.Join(rejected, ", "), strings.Join(unknown, ", "))
	}
	return b.String()
}

// predicatesTable has when a recipe is exposed to a cause.
func predicatesTable(*testing.T) string {
	var b strings.Builder
	b.WriteString("| cause | when | from ranks | why |\n|---|---|---|---|\n")
	for _, p := range recipe.Predicates() {
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", p.Cause, strings.ReplaceAll(p.When, "|", " or "), p.FromRanks, p.Why)
	}
	return b.String()
}

// What begins at a number of ranks does not part one rank fewer.
func TestRecipeFromRanks(t *testing.T) {
	if !*matrix {
		t.Skip("with -matrix")
	}
	dir := t.TempDir()
	for _, e := range exposed(t, recipeData+"mixtral-8x7b.sh", dir) {
		if e.FromRanks < 3 {
			continue
		}
		for n := e.FromRanks - 1; n <= e.FromRanks; n++ {
			code, _, errs := performed(t, fmt.Sprintf("%s --scale %d", e.Show, n))
			require.Equal(t, n == e.FromRanks, code == exitDifferent, "%s on %d ranks: exit %d %s", e.Cause, n, code, errs)
		}
	}
}

func TestRecipeOutput(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := firstbit(t, "recipe", recipeData+"everything.sh", "--env", "NODES=4")
	require.Zero(t, code, errs)
	for _, want := range []string{"rejected     --moe-router-fusion: ", "dprob-atomics, from 1 rank: ", "scale-collective, from 5 ranks: ", "-o small.json writes it", "  # shows it\n  firstbit localize \\\n    --a '--config small.json"} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "NODES=4", "what only the script reads is not unknown")
	for _, c := range []struct{ args, want string }{
		{recipeData + "everything.sh --env NODES", `--env "NODES": must be NAME=VALUE`},
		{recipeData + "none.sh", "none.sh"},
		{recipeData + "everything.sh -o " + dir, "-o " + dir},
		{"", "must be FILE"},
	} {
		code, out, errs := firstbit(t, append([]string{"recipe"}, strings.Fields(c.args)...)...)
		require.Equal(t, exitBad, code)
		require.Empty(t, out)
		require.Contains(t, errs, c.want)
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
	}
}
