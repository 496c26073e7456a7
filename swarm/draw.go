package swarm

import (
	"fmt"
	"slices"

	"firstbit/lowp"
	"firstbit/parallel"
	"firstbit/rng"
	"firstbit/trace"
	"firstbit/train"
)

// die draws whatever a case consists of.
type die struct{ *rng.Stream }

func one[T any](d die, of []T) T { return of[d.Intn(len(of))] }

// chance is true in so many of a hundred cases.
func (d die) chance(percent int) bool { return d.Intn(100) < percent }

func (d die) letters(n int) (s string) {
	for range n {
		s += string("M*-E"[d.Intn(4)])
	}
	return s
}

// needs are what a kind of fault cannot do without.
type needs struct {
	recomputes bool // a mask is drawn again
	quantised  bool
	ranks      bool // more than one
	steps      int  // at least
	streams    bool // some random stream decides bits
}

const maxWorlds = 1000

// world draws what both runs of a case are, until they can be.
func (d die) world(n needs) Case {
	for range maxWorlds {
		c := d.anyWorld(n)
		if possible(&c, n) {
			return c
		}
	}
	panic("swarm: no case of the kind is possible")
}

func possible(c *Case, n needs) bool {
	s, err := c.spec(nil, nil)
	if err != nil {
		return false
	}
	if s.Layout.World() > maxRanks || n.ranks && s.Layout.World() == 1 {
		return false
	}
	return s.Check() == nil
}

const maxRanks = 16

func (d die) anyWorld(n needs) Case {
	var c Case
	set := func(path string, value any) { c.Set = append(c.Set, fmt.Sprintf("%s=%v", path, value)) }
	l := d.layout(n)
	c.Layout = l.String()
	pattern, micro := d.letters(1+d.Intn(3)), 1+d.Intn(2)
	if l.PP > 1 {
		micro = l.PP * (1 + d.Intn(2))
		for len(pattern) < l.PP*l.VPP {
			pattern = d.letters(1) + pattern
		}
	}
	if d.chance(15) {
		pattern += "/" + d.letters(1)
	}
	set("model.pattern", pattern)
	set("seed", d.Intn(1<<20))
	set("steps", max(2+d.Intn(2), n.steps))
	set("micro", micro)
	set("batch", 1+d.Intn(2))
	set("seq", one(d, []int{8, 16}))
	for _, s := range small {
		set(s.path, s.value)
	}
	set("model.tied", d.chance(50))
	c.Recipe = one(d, []string{"fixed", "fixed", "fast", "canonical"})
	d.precision(n, &c, set)
	if c.Recipe == "canonical" {
		set("model.moe.aux", "sequence")
	}
	sometimes := func(percent int, path string, value any) {
		if d.chance(percent) {
			set(path, value)
		}
	}
	always := func(b bool) int {
		if b {
			return 100
		}
		return 30
	}
	sometimes(always(n.recomputes), "model.recompute", true)
	sometimes(always(n.recomputes || n.streams), "model.dropout", 0.1)
	sometimes(always(false), "model.moe.jitter", 0.05)
	sometimes(15, "streams", "indexed")
	sometimes(20, "optim.replicated", true)
	d.documents(set)
	sometimes(30, "model.moe.router", one(d, []string{"softmax", "softmax_topk"}))
	sometimes(15, "model.moe.latent", 8)
	sometimes(40, "cluster.overlap", true)
	sometimes(40, "cluster.bucket", 500+d.Intn(2000))
	return c
}

// small are extents that all layouts divide.
var small = []struct {
	path  string
	value int
}{{"model.hidden", 32}, {"model.moe.hidden", 16}, {"model.ssm.heads", 4}, {"model.ssm.head_dim", 4}, {"model.ssm.state", 4}, {"model.ssm.groups", 4}, {"model.kv_heads", 4}}

// precision draws one, with a recipe that it can have.
func (d die) precision(n needs, c *Case, set func(string, any)) {
	precision := one(d, []string{"fp32", "fp32", "bf16", "bf16", "fp16", "fp16", "fp8", "mxfp8", "nvfp4"})
	if n.quantised {
		precision = one(d, []string{"fp8", "mxfp8", "nvfp4"})
	}
	set("precision", precision)
	switch precision {
	case "fp32", "bf16":
		return
	case "fp16": // from a scale by which some first steps are skipped, or from a smaller one
		set("optim.loss_scale.initial", one(d, []int{1 << 10, 1 << 16, 1 << 28}))
		set("optim.loss_scale.growth_interval", one(d, []int{1, 1000}))
		set("optim.loss_scale.hysteresis", 1+d.Intn(2))
		return
	case "fp8":
		set("quant.scaling", one(d, []string{"current", "delayed"}))
	case "mxfp8":
		set("quant.rule", one(d, []string{"up", "floor"}))
	}
	if c.Recipe == "canonical" {
		c.Recipe = "fixed"
	}
}

// documents packs several into a sample, by boundaries that count in some way, and divides by labels.
func (d die) documents(set func(string, any)) {
	if !d.chance(25) {
		return
	}
	set("documents.reset_attention_mask", d.chance(70))
	set("documents.eod_mask_loss", d.chance(70))
	set("documents.prompt", one(d, []float64{0, 0.3}))
	set("calculate_per_token_loss", d.chance(60))
}

// besides has run B differ in something else that changes no bit, or less than all traced, with the fault in it.
func (d die) besides(k *kind, c *Case) {
	if len(c.Faults) != 1 || c.Saved > 0 || k.outside {
		return
	}
	f := &c.Faults[0]
	switch d.Intn(15) {
	case 0:
		if c.Recipe != "fast" {
			c.ScheduleB = 1 + uint64(d.Intn(1000))
		}
	case 1:
		if c.Recipe != "fast" && !slices.Contains(c.Set, overlap) {
			c.SetB = []string{overlap}
		}
	case 2:
		if f.Step > 1 && !c.Alone {
			c.Saved, c.Whole = 1+d.Intn(f.Step-1), true
		}
	case 3:
		if f.Step > 0 {
			c.Steps = fmt.Sprintf("%d-%d", 1+d.Intn(f.Step), c.steps())
		}
	case 4:
		s, err := c.spec(nil, nil)
		if err == nil && f.Rank != all {
			c.Ranks = d.ranks(s.Layout.World(), func(rank int) bool { return rank == f.Rank || d.chance(50) })
		}
	}
}

// ranks lists those ranks that are chosen.
func (d die) ranks(world int, chosen func(rank int) bool) string {
	var ranks trace.Set
	for rank := range world {
		if chosen(rank) {
			ranks = append(ranks, trace.Span{Lo: rank, Hi: rank})
		}
	}
	return ranks.String()
}

const overlap = "cluster.overlap=true"

// layout draws extents of all axes, small worlds oftener than large ones.
func (d die) layout(n needs) parallel.Layout {
	l := parallel.Layout{}.Full()
	axes := []*int{&l.DP, &l.TP, &l.PP, &l.CP, &l.EP, &l.ETP}
	for range one(d, []int{0, 0, 1, 1, 1, 2, 2, 3, 4}) {
		*one(d, axes) *= 2
	}
	if n.ranks && l.TP*l.CP*l.DP*l.PP == 1 {
		*one(d, axes[:4]) = 2
	}
	if l.PP > 1 && d.chance(30) {
		l.VPP = 2
	}
	if l.Check() != nil {
		l.DP = max(l.DP, l.EP*l.ETP)
	}
	return l
}

// instances are the records of one Call.
type instances struct{ at []*trace.Record }

// calls are the Calls of a trace for which a condition holds, each of its records one instance, in the order in which they first come.
func calls(t *trace.Trace, of func(*trace.Record) bool) (found []*instances) {
	type name struct{ phase, scope, name string }
	known := map[name]*instances{}
	for i := range t.Ranks {
		for j := range t.Ranks[i].Records {
			r := &t.Ranks[i].Records[j]
			if shows(r) || !of(r) {
				continue
			}
			n := name{r.Phase, r.Scope, r.Name}
			s := known[n]
			if s == nil {
				s = &instances{}
				known[n] = s
				found = append(found, s)
			}
			s.at = append(s.at, r)
		}
	}
	return found
}

// record draws a Call, and one of its instances; nil: there is none.
func (d die) record(t *trace.Trace, of func(*trace.Record) bool) *trace.Record {
	found := calls(t, of)
	if len(found) == 0 {
		return nil
	}
	return one(d, one(d, found).at)
}

// writes tells whether a fault of an output can act on a record: what it computes is written, and shown.
func writes(r *trace.Record) bool {
	return len(r.Out) > 0 && !r.View && len(r.Flags) == 0 && r.Kind != "load" && r.Kind != "recompute"
}

// in tells whether a record is of a step of the run.
func inSteps(r *trace.Record) bool { return r.Phase != "init" && r.Phase != "load" && r.Iteration > 0 }

// element draws a bit of an element of an output.
func (d die) element(r *trace.Record) (out *trace.Sig, elem, bit int, ok bool) {
	out = one(d, pointers(r.Out))
	f, err := lowp.Parse(out.Dtype)
	if err != nil || out.Numel == 0 {
		return out, 0, 0, false
	}
	return out, d.Intn(out.Numel), d.Intn(f.Bits()), true
}

func pointers[T any](of []T) (p []*T) {
	for i := range of {
		p = append(p, &of[i])
	}
	return p
}

// steps is the number of steps of a case.
func (c *Case) steps() int {
	config, err := c.config(nil)
	if err != nil {
		return train.Pico().Steps
	}
	return config.Steps
}
