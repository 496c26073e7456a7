// Package corrupt draws faults as hardware makes them, breaks small runs with them, and asks each way of finding silent corruption whether it does, and
// whether it names the rank and the Call: rerunning steps, comparing the replicas of one run, and a second run.
package corrupt

import (
	"fmt"
	"slices"

	"firstbit/lowp"
	"firstbit/parallel"
	"firstbit/rng"
	"firstbit/run"
	"firstbit/trace"
	"firstbit/train"
)

// The shares of corruptions.
//
// Source: docs/facts.md, How hardware fails: NaN or infinity in 1.01 % of silent corruptions; single bits below 40 % of flips; corrupted addresses
// periodic along a warp. How many are so along a warp, and how many faults last, is not known there: half.
const (
	nonFinite = 0.0101
	singleBit = 0.38
	alongWarp = 0.5
	lasting   = 0.5

	warp = 32
)

// Fault is a corruption of what one Call of one rank writes.
type Fault struct {
	Lasting bool `json:"lasting"` // from its step on, in every step; else in that one alone
	Step    int  `json:"step"`
	Site    Site `json:"site"`
	kind    string
	how     string
}

// during is the fault as inject reads it, as far as it acts in steps up to one; none: it does not.
func (f *Fault) during(last int) []string {
	if last < f.Step {
		return nil
	}
	when := fmt.Sprint(f.Step)
	if f.Lasting {
		when = fmt.Sprintf("%d-%d", f.Step, last)
	}
	return []string{fmt.Sprintf("%s@%s phase=%s rank=%d step=%s %s", f.kind, f.Site.Path, f.Site.Phase, f.Site.Rank, when, f.how)}
}

// Site is a Call on a rank, in whichever step and microbatch.
type Site struct {
	Rank  int    `json:"rank"`
	Phase string `json:"phase"`
	Path  string `json:"call"`
}

func siteOf(r *trace.Record) Site { return Site{r.Rank, r.Phase, trace.Path(r.Scope, r.Name)} }

// The runs that are broken. Ranks of each have copies of something.
var (
	layouts    = []string{"dp=2", "dp=4", "dp=2,tp=2", "dp=2,pp=2", "dp=2,ep=2"}
	precisions = []string{"fp32", "bf16"}
)

const (
	steps      = 4
	firstFault = 2 // the step from which a fault may act
)

// world is a run without faults: every data-parallel rank has the whole optimizer, as where replicas can be compared.
func world(layout, precision string) run.Spec {
	c := train.Pico()
	c.Steps, c.Precision, c.Optim.Replicated, c.Cluster.Bucket, c.Model.SSM.Groups = steps, precision, true, 2048, 2
	l, err := parallel.ParseLayout(layout)
	if err != nil {
		panic("corrupt: the layouts are ours")
	}
	return run.Spec{Config: c, Layout: l, Kept: run.Kept{Digest: true}}
}

// draw draws a fault at a Call of a healthy run that computes or adds, all alike likely, whenever the machine of a rank may fail.
func draw(d *rng.Stream, healthy *trace.Trace) Fault {
	for {
		records := healthy.Ranks[d.Intn(len(healthy.Ranks))].Records
		r := &records[d.Intn(len(records))]
		if r.Iteration < firstFault || !slices.Contains([]string{"op", "optim", "collective"}, r.Kind) || len(r.Out) == 0 {
			continue
		}
		out := &r.Out[d.Intn(len(r.Out))]
		bits := map[string]int{lowp.FP32.String(): 32, lowp.BF16.String(): 16}[out.Dtype]
		if bits == 0 || out.Numel == 0 {
			continue
		}
		f := Fault{Lasting: d.Float64() < lasting, Step: r.Iteration, Site: siteOf(r)}
		kind, how := corruption(d, bits, f.Lasting)
		f.kind, f.how = kind, fmt.Sprintf("micro=%d out=%s %s %s", r.Microbatch, out.Name, where(d, out.Numel), how)
		return f
	}
}

// corruption is what becomes of an element of so many bits. What lasts is stuck.
func corruption(d *rng.Stream, bits int, stuck bool) (kind, how string) {
	if d.Float64() < nonFinite {
		return "set", "value=" + []string{"nan", "inf", "-inf"}[d.Intn(3)]
	}
	mask := uint64(1) << d.Intn(bits)
	if d.Float64() >= singleBit {
		for more := 1 + d.Intn(bits/2); more > 0; more-- {
			mask |= 1 << d.Intn(bits)
		}
	}
	how = fmt.Sprintf("mask=%x", mask)
	if stuck {
		how += fmt.Sprintf(" stuck=%d", d.Intn(2))
	}
	return "flip", how
}

// where is one element, or those that one lane of a warp has in the warps of a block.
func where(d *rng.Stream, n int) string {
	if d.Float64() >= alongWarp {
		return fmt.Sprintf("elem=%d", d.Intn(n))
	}
	lane := d.Intn(min(warp, n))
	return fmt.Sprintf("elem=%d count=%d stride=%d", lane, 1+d.Intn((n-lane+warp-1)/warp), warp)
}
