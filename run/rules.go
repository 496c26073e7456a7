package run

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/train"
	"firstbit/tune"
)

// Rule is something that deterministic mode refuses, as data.
type Rule struct {
	ID    string `json:"id"`
	Field string `json:"field"` // what is looked at: the item of a kernel's plan, or a flag
	Why   string `json:"why"`
	Set   string `json:"set"` // what to set instead
	Show  Shown  `json:"-"`   // two runs that part by it

	doubt   tune.Doubt
	kernels []string // nil: any
	items   []string // of their plans; nil: any
	group   string   // the axis of a collective; empty: any
}

// Shown is a pair: two runs that differ in their schedule, or in a plan, alone.
type Shown struct {
	Preset, Layout, Recipe string // empty: one rank, fixed
	Set, Plans, Faults     []string
	Vary                   [2]string // a plan of each run's own; empty: the schedules are 1 and 2
}

// arrives is a rule about items of kernels' plans that depend on arrival.
func arrives(id, field, why, set string, show Shown, kernels ...string) Rule {
	r := Rule{ID: id, Field: field, Why: why, Set: set, Show: show, kernels: kernels}
	_, items, _ := strings.Cut(field, " ")
	r.items = strings.Split(items, ", ")
	return r
}

func pico(plans ...string) Shown { return Shown{Preset: "pico", Plans: plans} }

// rules are asked in this order: the first that holds counts.
var rules = []Rule{
	{ID: "late-flag", Field: "--inject capture@…", Why: "kernels that were set up before the flag keep the plans of recipe fast, which nothing set now reaches",
		Set: "what is to be deterministic before the first kernel is set up", doubt: tune.Late,
		Show: Shown{Preset: "pico", Faults: []string{"capture@layers.2.moe.*"}}},
	{ID: "unpinned-tuner", Field: "--inject autotune@…", Why: "the tuner keeps whichever variant finished first, so that another run has another kernel",
		Set: "every item of its variants by --plan", doubt: tune.Unpinned,
		Show: Shown{Preset: "pico", Faults: []string{"autotune@*.mlp.*"}}},
	{ID: "unshared-tuner", Field: "--plan '… rank=…'", Why: "ranks that run the same Call have found other plans for it, each in a cache of its own: another allocation deals them anew",
		Set: "the same plan on all ranks that run the Call", doubt: tune.Unshared,
		Show: Shown{Preset: "pico", Layout: "dp=2", Vary: [2]string{"*loss_sum tokens:lanes(8) rank=0", "*loss_sum tokens:lanes(8) rank=1"}}},
	arrives("dprob-atomics", "grouped_gemm tiles", "N-tiles of the epilogue add into dprob as they finish", "tiles:seq or tiles:pairwise: a slot for each tile",
		Shown{Preset: "pico", Plans: []string{"*.experts.w2.dx tiles:arrival"}, Set: []string{"model.moe.tile_n=8"}}, "grouped_gemm"),
	arrives("dynamic-scheduler", "grouped_gemm sched", "a dynamic scheduler decides at run time in which direction a tile is walked", "sched=static or sched=each",
		Shown{Preset: "pico", Plans: []string{"*.experts.w2.dx sched=dynamic"}, Set: []string{"seq=64"}}, "grouped_gemm"),
	arrives("fused-aux-loss", "fused_aux_loss ctas", "the CTAs of the fused load-balancing loss add their partial sums with atomics", "ctas:seq or ctas:pairwise",
		Shown{Preset: "tiny", Plans: []string{"*.aux_loss ctas:arrival"}}, "fused_aux_loss"),
	arrives("fused-cross-entropy", "cross_entropy vocab", "the fused loss takes a row's exponentials tile by tile, and adds the tiles as they come", "max=row, and a vocab that does not arrive",
		pico("loss vocab:splitk(8,arrival); max=tile phase=fwd"), "cross_entropy", "cross_entropy.part"),
	arrives("wgrad-split-k", "matmul.wgrad k", "the slices of a split-k weight gradient add into it with atomics", "k:seq, or k:splitk(4): slices joined in order",
		pico("*.wk.dw k:splitk(4,arrival)/bf16"), "matmul.wgrad"),
	arrives("dq-atomics", "attention.bwd dq", "blocks of keys add into dq with atomics", "dq:splitk(4): blocks of keys in order",
		pico("*.attention.dx dq:splitk(4,arrival)/bf16"), "attention.bwd"),
	arrives("embedding-scatter", "embedding.bwd tokens", "tokens with one id scatter their gradients with atomics", "tokens:seq",
		pico("embed.dw tokens:arrival/bf16"), "embedding.bwd"),
	arrives("norm-atomics", "rmsnorm.wgrad rows", "CTAs add the gradients of their rows with atomics", "rows:seq, or rows:splitk(8): a slot for each CTA",
		pico("*.norm.dw rows:splitk(8,arrival)"), "rmsnorm.wgrad", "rmsnorm.gated.wgrad"),
	arrives("mamba-atomics", "ssd heads, rows", "heads of one group, and CTAs of rows, add the scan's gradients with atomics", "heads:seq and rows:seq",
		Shown{Preset: "tiny", Plans: []string{"*.ssm.scan.dx heads:arrival", "*.ssm.a_log.dw rows:splitk(8,arrival)"}},
		"ssd.bwd", "ssd.dA", "ssd.dD", "ssd.ddt_bias", "causal_conv1d.wgrad"),
	arrives("unpermute-scatter", "combine slots", "experts add their rows into a token's with atomics", "slots:seq",
		Shown{Preset: "pico", Plans: []string{"*.combine slots:arrival/bf16"}, Set: []string{"model.moe.top_k=4"}}, "combine"),
	arrives("completion-order", "completion micro", "microbatches add into gradients and losses as they complete", "micro:seq",
		Shown{Preset: "pico", Plans: []string{"grads.accumulate micro:arrival"}, Set: []string{"micro=4"}}, "completion"),
	{ID: "tp-overlap", Field: "reduce_scatter, all_reduce ranks of a tp group", Why: "with communication overlapped, chunks of a row-parallel product are added as they arrive",
		Set: "ranks:ring, or another order of the ranks", group: "tp", kernels: []string{"reduce_scatter", "all_reduce"}, items: []string{"ranks"},
		Show: Shown{Preset: "gpt", Layout: "tp=4", Plans: []string{"*.mlp.w2.scatter ranks:arrival; channels=4"}, Set: []string{"batch=1", "seq=16"}}},
	{ID: "in-switch", Field: "reduce_scatter, all_reduce ranks", Why: "switches of the network, and whoever adds what comes first, add packets as they come",
		Set: "ranks:ring, or another order of the ranks; tuned=false from two nodes on", kernels: []string{"reduce_scatter", "all_reduce"}, items: []string{"ranks"},
		Show: Shown{Preset: "pico", Layout: "dp=8", Plans: []string{"grads.bucket.? tuned=true"}}},
	{ID: "atomics", Field: "any other item of a plan", Why: "the sum is added in whatever order its parts arrive", Set: "an order that depends on the Call alone: see docs/orders.md",
		Show: pico("layers.1.norm d:splitk(4,arrival)")},
}

// Rules are what deterministic mode refuses, in the order in which they are asked.
func Rules() []Rule { return slices.Clone(rules) }

// holds tells whether the rule is about this doubt.
func (r *Rule) holds(d tune.Doubtful) bool {
	has := func(list []string, x string) bool { return list == nil || slices.Contains(list, x) }
	return r.doubt == d.Doubt && has(r.kernels, d.Call.Kernel.Name) && has(r.items, d.Item) && strings.HasPrefix(d.Call.Group, r.group)
}

// Spec is a run of the pair.
func (p Shown) Spec(side int) (s Spec, err error) {
	if s.Config, err = train.Preset(p.Preset); err != nil {
		return s, err
	}
	s.Config.Steps = pairSteps
	for _, field := range p.Set {
		if err := s.Config.Set(field); err != nil {
			return s, err
		}
	}
	if p.Layout != "" {
		if s.Layout, err = parallel.ParseLayout(p.Layout); err != nil {
			return s, err
		}
	}
	s.Recipe, s.Plans, s.Faults = p.Recipe, slices.Clone(p.Plans), p.Faults
	s.Schedule = device.Schedule{Seed: uint64(side) + 1}
	if v := p.Vary[side]; v != "" {
		s.Plans, s.Schedule.Seed = append(s.Plans, v), 1
	}
	return s, nil
}

// pairSteps is after how many steps a pair has parted.
const pairSteps = 3

// Flags are those of train that make a run of the pair.
func (p Shown) Flags(side int) string {
	words := []string{"--preset " + p.Preset, fmt.Sprintf("--steps %d", pairSteps)}
	add := func(flag string, values ...string) {
		for _, v := range values {
			if strings.ContainsAny(v, " *?;()") {
				v = "'" + v + "'"
			}
			if v != "" {
				words = append(words, flag+" "+v)
			}
		}
	}
	add("--layout", p.Layout)
	add("--recipe", p.Recipe)
	add("--set", p.Set...)
	add("--plan", p.Plans...)
	add("--inject", p.Faults...)
	if v := p.Vary[side]; v != "" {
		add("--plan", v)
	} else {
		add("--schedule", fmt.Sprint(side+1))
	}
	return strings.Join(words, " ")
}
