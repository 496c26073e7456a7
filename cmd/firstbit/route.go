package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"firstbit/parallel"
	"firstbit/route"
	"firstbit/run"
	"firstbit/spell"
	"firstbit/tune"
)

type routeFlags struct {
	configFlags
	layout, recipe, sweep string
	experts, topK         int
	flip                  route.Flip
	json, svg             bool
}

func routeCommand() *cobra.Command {
	var f routeFlags
	c := &cobra.Command{
		Use:   "route",
		Short: "Flip one bit, and follow it to the first token that takes another route",
		Long: "Run a model twice, once with one bit of one element of one output flipped, and show which Calls then differ, how far the scores of experts move,\n" +
			"and which tokens take another route. A route flips where a score moves further than the margin between the last expert chosen and the best left out.",
		Example: "  firstbit route\n  firstbit route --flip layers.1.attn.wq --elem 1001 --bit 4 --step 5\n  firstbit route --sweep precisions\n" +
			"  firstbit route --sweep experts --json\n  firstbit route --layout tp=2,ep=2 --svg > route.svg",
		Args: noArgs,
	}
	f.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		spec, err := f.spec(c.Flags().Changed)
		if err != nil {
			return err
		}
		return f.run(spec, c.OutOrStdout())
	}
	return c
}

func (f *routeFlags) add(c *cobra.Command) {
	f.configFlags.add(c)
	fs := c.Flags()
	fs.StringVar(&f.layout, "layout", "dp=1", "simulated ranks: `AXIS=N` of axes dp, tp, pp, vpp, cp, ep, etp, such as dp=2,tp=2,pp=2")
	fs.StringVar(&f.recipe, "recipe", tune.Recipes[0], "`RECIPE` of kernels' plans: "+strings.Join(tune.Recipes, ", "))
	fs.IntVar(&f.experts, "experts", 0, "experts of a layer; 0: the preset's")
	fs.IntVar(&f.topK, "topk", 0, "experts of a token; 0: the preset's")
	fs.StringVar(&f.flip.Call, "flip", "layers.0.y", "the `CALL` whose first output has a bit flipped, as scope.name")
	fs.StringVar(&f.flip.Phase, "phase", "fwd", "the `PHASE` in which it runs: fwd, bwd, opt")
	fs.IntVar(&f.flip.Elem, "elem", 100, "the element")
	fs.IntVar(&f.flip.Bit, "bit", 0, "the bit; 0 is the lowest")
	fs.IntVar(&f.flip.Step, "step", 3, "the step")
	fs.IntVar(&f.flip.Rank, "rank", 0, "the rank")
	fs.StringVar(&f.sweep, "sweep", "", "run once for each of `"+strings.Join(route.Sweeps, "|")+"` instead")
	fs.BoolVar(&f.svg, "svg", false, "draw as SVG where Calls differ, step by step")
	fs.BoolVar(&f.json, "json", false, "print one JSON object")
	c.MarkFlagsMutuallyExclusive("json", "svg")
	c.MarkFlagsMutuallyExclusive("sweep", "svg")
}

// routeDefaults are what the story is told with unless the user says otherwise: forty steps in bf16.
const routeSteps, routePrecision = 40, "bf16"

func (f *routeFlags) spec(changed func(string) bool) (run.Spec, error) {
	var s run.Spec
	c, err := f.configuration(changed)
	if err != nil {
		return s, err
	}
	if !changed("steps") && !changed("config") && !f.sets("steps") {
		c.Steps = routeSteps
	}
	if !changed("precision") && !changed("config") && !f.sets("precision") {
		c.Precision = routePrecision
	}
	if f.experts != 0 {
		c.Model.MoE.Experts = f.experts
	}
	if f.topK != 0 {
		c.Model.MoE.TopK = f.topK
	}
	if f.sweep != "" && !slices.Contains(route.Sweeps, f.sweep) {
		return s, fmt.Errorf("--sweep %q: %s", f.sweep, spell.OneOf(f.sweep, route.Sweeps))
	}
	if !slices.Contains([]string{"fwd", "bwd", "opt"}, f.flip.Phase) {
		return s, fmt.Errorf("--phase %q: must be one of fwd, bwd, opt", f.flip.Phase)
	}
	if !strings.ContainsRune(c.Model.Pattern, 'E') {
		return s, fmt.Errorf("model.pattern %q: has no E, so no token has a route: must have a layer of experts", c.Model.Pattern)
	}
	s = run.Spec{Config: c, Recipe: f.recipe}
	if s.Layout, err = parallel.ParseLayout(f.layout); err != nil {
		return s, fmt.Errorf("--%w", err)
	}
	return s, s.Check()
}

// sets tells whether --set gives a field.
func (f *routeFlags) sets(field string) bool {
	return slices.ContainsFunc(f.set, func(s string) bool { return strings.HasPrefix(s, field+"=") })
}

func (f *routeFlags) run(spec run.Spec, out io.Writer) error {
	if f.sweep != "" {
		return f.runSweep(spec, out)
	}
	r, err := route.Run(spec, f.flip)
	switch {
	case err != nil:
		return err
	case f.json:
		return printJSON(out, r)
	case f.svg:
		fmt.Fprint(out, r.Spread().ByPart().SVG())
	default:
		printRoute(out, r, f.flip)
	}
	return nil
}

func (f *routeFlags) runSweep(spec run.Spec, out io.Writer) error {
	n, err := route.Values(spec, f.flip, f.sweep)
	if err != nil {
		return err
	}
	bar := newProgress("route", n)
	points, err := route.Sweep(spec, f.flip, f.sweep, bar.step)
	bar.done()
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(out, map[string]any{"flip": f.flip.Fault(), "flips": nil, "first": nil, "by_step": nil, "by_layer": nil, "by_rank": nil, "sweep": points})
	}
	printSweep(out, f.sweep, spec.Config.Steps, points)
	return nil
}

func printRoute(out io.Writer, r *route.Result, f route.Flip) {
	b := r.Bits
	tell(out, "flipped      \tbit %d of %s[%d] of %s, %s of step %d, rank %d: %s", f.Bit, b.Output, b.Element, f.Call, phaseName(f.Phase), f.Step, f.Rank, b.Distance())
	tell(out, "  before     \t%s  %s\n  after      \t%s  %s", binary(b.A, b.B), b.ValueA, binary(b.B, b.A), b.ValueB)
	if x := r.First; x == nil {
		tell(out, "routes       \tno token takes another one: %d routes in %d steps are the same", r.Routes, len(r.ByStep))
	} else {
		tell(out, "first route  \tstep %d, %s, token %d%s: experts %s without the flip, %s with it", x.Step, x.Layer, x.Token, onRank(r, x.Rank), list(x.Before), list(x.After))
		tell(out, "  margin     \t%d ulp, of %s over %s; the flip moved it by %d ulp", x.Margin, shortest(x.Kth), shortest(x.Left), x.Moved)
		tell(out, "routes       \t%d of %d flip%s", r.Flips, r.Routes, where(r))
	}
	fmt.Fprintf(out, "\n  step  Calls that differ  routes that flip  margins moved by (median)\n")
	last := len(r.ByStep) - 1
	for i, s := range r.ByStep {
		if s.Step < f.Step || i > f.Step+7 && i != last && s.Step%10 != 0 {
			continue // nothing yet, or more of the same
		}
		fmt.Fprintf(out, "  %4d  %6d of %-6d   %6d of %-6d  %14d ulp\n", s.Step, s.Calls.Differs, s.Calls.Of, s.Flips, s.Of, s.Moved)
	}
	fmt.Fprintf(out, "\n%s", r.Spread().ByPart().Text(terminalWidth))
	tell(out, "\nwhy          \t%s", why(r.Margins))
}

// why explains routes by their margins.
func why(m route.Margins) string {
	return fmt.Sprintf("one route in a hundred is decided by at most %d ulp of a score, one in ten by %d, half by %d: "+
		"a route flips where its margin moves by more than it is", m.P01, m.P10, m.P50)
}

func onRank(r *route.Result, rank int) string {
	if len(r.Spread().ByRank().Rows) == 1 {
		return ""
	}
	return fmt.Sprintf(" of rank %d", rank)
}

func list[T any](x []T) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(x), " ", ", "), "[]")
}

// where lists layers, and ranks if there are several.
func where(r *route.Result) string {
	var parts []string
	for _, layer := range slices.Sorted(maps.Keys(r.ByLayer)) {
		parts = append(parts, fmt.Sprintf("%d in %s", r.ByLayer[layer], strings.TrimSuffix(layer, ".moe.router")))
	}
	if ranks := slices.Sorted(maps.Keys(r.ByRank)); len(ranks) > 1 {
		parts = append(parts, "on ranks "+list(ranks))
	}
	return ": " + strings.Join(parts, ", ")
}

// reasons say of each sweep what its table shows.
var reasons = map[string]string{
	"bits":       "A higher bit is worth twice the one below it; it flips a route once it moves a\nmargin further than it is.",
	"precisions": "The lowest bit of a narrow format is worth more; the rounding of the next format\npasses it on enlarged, or swallows it whole.\nUlps are those of the router's scores: fp64 in the first line, fp32 in the\nothers.",
	"experts":    "More experts lie closer together, so more margins are smaller than what a bit\nmoves.",
	"layers":     "The first update carries a flip to every weight, so it matters little in which\nlayer it began.",
	"steps":      "An early flip has more steps to grow in.",
}

func printSweep(out io.Writer, what string, steps int, points []route.Point) {
	head := strings.TrimSuffix(what, "s")
	width := len(head)
	for _, p := range points {
		width = max(width, len(p.Value))
	}
	fmt.Fprintf(out, "%-*s  first flip  routes that flip  margin of 1 in 100  moved at step %d\n", width, head, steps)
	for _, p := range points {
		first := "none"
		if p.FirstStep != nil {
			first = fmt.Sprintf("step %d", *p.FirstStep)
		}
		fmt.Fprintf(out, "%-*s  %-10s  %6d of %-6d  %14d ulp  %10d ulp\n", width, p.Value, first, p.Flips, p.Routes, p.Margins.P01, p.Moved)
	}
	tell(out, "\n%s", reasons[what])
}
