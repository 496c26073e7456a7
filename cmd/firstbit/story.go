package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"firstbit/experiments"
	"firstbit/trace"
)

// story prints a result for a person reading along.
type story struct {
	out   io.Writer
	cause *experiments.Cause
	r     *experiments.Result // nil before it is known
}

func (s story) print(format string, a ...any) { tell(s.out, format, a...) }

func (s story) tell() {
	c, r := s.cause, s.r
	s.print("1  Without the cause     %s", sameOrNot(r.Baseline.Identical))
	s.print("2  With the cause        %s", sameOrNot(r.Fault.Identical))
	if r.Hidden {
		s.print("     in %s what it changes is rounded away in these steps", r.Precision)
	}
	if !r.Fault.Identical {
		s.losses()
		s.versus()
		s.levels()
		s.root()
		s.consequences()
	}
	s.print("6  With the cure         %s", sameOrNot(r.Cure.Identical))
	s.print("     %s", c.Cure)
	if c.Persists() {
		s.print("     run A still: %s; run B: %s", c.Vary()[0], c.Vary()[1])
	}
	if c.Stop() > 0 {
		s.print("     run A was never stopped; run B continues after step %d%s", c.Stop(), c.Cured())
	}
	width := 0
	for _, p := range r.Controls {
		width = max(width, len(p.Name))
	}
	for _, p := range r.Controls {
		s.print("     control: %-*s   %s", width, p.Name, sameOrNot(p.Identical))
	}
	s.print("")
	if r.Hidden {
		s.print("ok: hidden by the precision")
		return
	}
	if r.OK {
		s.print("ok: reproduced, found from the traces alone, cured")
		return
	}
	for _, why := range r.Why {
		s.print("NOT OK: %s", why)
	}
}

func sameOrNot(same bool) string {
	if same {
		return "two runs, the same bits at every step"
	}
	return "two runs, different bits"
}

// losses shows where the difference is, and where print would show it.
func (s story) losses() {
	r := s.r
	first := *r.Fault.FirstStep
	last := len(r.Losses[0])
	s.print("     the bits differ from step %d on%s;\n     the loss printed to %d decimals %s", first, s.firstMetric(), r.Printed.Decimals, s.printedAt())
	show := []int{first, last}
	if r.Printed.FirstStep != nil {
		show = append(show, *r.Printed.FirstStep-1, *r.Printed.FirstStep)
	}
	if r.Routes != nil && r.Routes.FirstStep != nil {
		show = append(show, *r.Routes.FirstStep)
	}
	slices.Sort(show)
	s.print("       step  loss, run A  loss, run B")
	for _, step := range slices.Compact(show) {
		if step > s.cause.Stop() && step <= last {
			a, b := fmt.Sprintf("%11.6f", r.Losses[0][step-1]), fmt.Sprintf("%11.6f", r.Losses[1][step-1])
			s.print("       %4d  %s  %s", step, mark(a, b), mark(b, a))
		}
	}
}

func (s story) printedAt() string {
	switch p := s.r.Printed; {
	case p.FirstStep == nil:
		return "never shows it"
	case *p.FirstStep == 1+s.cause.Stop():
		return "shows it at once"
	default:
		return fmt.Sprintf("agrees until step %d and differs at step %d", *p.FirstStep-1, *p.FirstStep)
	}
}

// firstMetric says which metric is the first to show it, where one does at the first step.
func (s story) firstMetric() string {
	v := s.r.Healthy
	if s.cause.Races() {
		v = s.r.Faulty
	}
	if v == nil || v.Metric == nil {
		return ""
	}
	return ", first in " + *v.Metric
}

// versus is what else people have: a healthy run and a faulty one, where the pair is of two faulty ones, or two faulty runs, where it is not.
func (s story) versus() {
	if !s.cause.Races() {
		if v := s.r.Faulty; v != nil {
			s.print("     two faulty runs         %s", sameOrNot(v.Identical))
		}
		return
	}
	v := s.r.Healthy
	if v == nil || v.Root == nil || v.FirstStep == nil {
		return
	}
	printed := "never printed"
	if v.Printed != nil {
		printed = fmt.Sprintf("printed at step %d", *v.Printed)
	}
	class := v.Root.Verdict
	if v.Class != nil {
		class = *v.Class
	}
	s.print("     a healthy run and run %s part at step %d, %s: %s, %s", v.Run, *v.FirstStep, printed, v.Root.Path(), class)
}

func (s story) levels() {
	s.print("3  Localised at step %d, from the traces alone", *s.r.Fault.FirstStep)
	s.print("     level    records  equal  first mismatch")
	for _, l := range s.r.Report.Levels {
		if l.First == nil {
			s.print("     %-8s %7d %6d  none", l.Level, l.Compared, l.RuledOut)
			continue
		}
		s.print("     %-8s %7d %6d  \t%s %s %s: %s", l.Level, l.Compared, l.RuledOut, l.First.Phase, l.First.Kind, l.First.Path(), l.First.Verdict)
	}
}

// root shows the Call: what it read, how it added, which bit came of it.
func (s story) root() {
	rep, f := s.r.Report, s.r.Fault
	s.print("4  The root              \t%s, %s of step %d", f.Root.Path(), phaseName(f.Root.Phase), f.Root.Iteration)
	if rep.A != nil && rep.B != nil {
		if equal := unchanged(rep.A.In, rep.B.In); equal != "" {
			s.print("     inputs equal: %s", equal)
		}
		if other := changed(rep.A.In, rep.B.In); other != "" && f.Root.Verdict == "memory" {
			s.print("     inputs different: %s; %s", other, rep.Evidence[0])
		}
		s.print("     outputs different: %s", changed(rep.A.Out, rep.B.Out))
		if rep.A.Plan == rep.B.Plan && rep.A.Plan != "" {
			s.print("     plan, both runs: %s", rep.A.Plan)
		} else if rep.A.Plan != rep.B.Plan {
			s.print("     plan, run A: %s", rep.A.Plan)
			s.print("     plan, run B: %s", rep.B.Plan)
		}
		s.orders()
	}
	if f.Class != nil {
		why := rep.Evidence[min(1, len(rep.Evidence)-1)]
		if rep.A != nil && rep.A.Plan != "" { // which stands above
			why = strings.TrimSuffix(why, ": "+rep.A.Plan)
		}
		s.print("     class %s: %s", *f.Class, why)
	}
	const most = 4
	told := map[string]bool{f.Root.Path(): true}
	for _, other := range rep.Roots { // a collective is a root on every rank
		if !told[other.Path()] {
			told[other.Path()] = true
			if len(told) <= 1+most {
				s.print("     another, independent: %s", other.Path())
			}
		}
	}
	if more := len(told) - 1 - most; more > 0 {
		s.print("     and %d more", more)
	}
	if b := f.Bytes; b != nil {
		s.print("5  The bit               \t%s[%d], %s; %d of %d elements differ", b.Output, b.Element, b.Distance(), b.Count, b.Of)
		s.print("       run A  \t%s  %s", binary(b.A, b.B), b.ValueA)
		s.print("       run B  \t%s  %s", binary(b.B, b.A), b.ValueB)
	}
}

func phaseName(p string) string {
	switch p {
	case "fwd":
		return "forward"
	case "bwd":
		return "backward"
	case "opt":
		return "optimizer"
	}
	return p
}

// unchanged names what both runs read alike.
func unchanged(a, b []trace.Sig) string {
	var n []string
	for _, g := range a {
		if slices.ContainsFunc(b, func(h trace.Sig) bool { return h.Name == g.Name && h.Digest == g.Digest }) {
			n = append(n, g.Name)
		}
	}
	return strings.Join(n, ", ")
}

func changed(a, b []trace.Sig) string {
	var n []string
	for i := range a {
		if i < len(b) && a[i].Digest != b[i].Digest {
			n = append(n, a[i].Name)
		}
	}
	return strings.Join(n, ", ")
}

// binary writes a hex pattern in binary, the bits in which it differs from the other in brackets.
func binary(x, other string) string {
	u, err1 := strconv.ParseUint(x, 16, 64)
	v, err2 := strconv.ParseUint(other, 16, 64)
	if err1 != nil || err2 != nil {
		return x
	}
	var b strings.Builder
	b.WriteString(x + "  ")
	for i := 4*len(x) - 1; i >= 0; i-- {
		bit := strconv.FormatUint(u>>i&1, 10)
		if (u^v)>>i&1 == 1 {
			bit = "[" + markOn + bit + markOff + "]"
		}
		b.WriteString(bit)
		if i%8 == 0 && i > 0 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// consequences follows the bit to a weight and to a route.
func (s story) consequences() {
	if len(s.r.Spread) > 1 {
		var path []string
		for _, e := range s.r.Spread[1:] {
			path = append(path, e.Phase+" "+e.Path)
		}
		s.print("     it spreads: %s", strings.Join(path, "\n                 → "))
	}
	routes := s.r.Routes
	if routes == nil {
		return
	}
	if routes.First == nil {
		s.print("     no token takes another route in %d steps", len(s.r.Losses[0]))
		return
	}
	f := routes.First
	s.print("     the first route to flip: step %d, %s, token %d:\n       experts %v in run A, %v in run B", *routes.FirstStep, f.Layer, f.Token, f.A, f.B)
	s.print("       its margin in run A was %d ulp (%s against %s)\n       %d routes flip by step %d", f.Margin, shortest(f.Kth), shortest(f.Left), routes.Flips, len(s.r.Losses[0]))
}

// shortest writes as few digits as tell a score from its neighbours: scores are fp32 unless the run is fp64.
func shortest(x float64) string {
	if float64(float32(x)) == x {
		return fmt.Sprint(float32(x))
	}
	return fmt.Sprint(x)
}
