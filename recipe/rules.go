package recipe

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/run"
)

// Rejected is an argument or variable that deterministic mode refuses, and the rule of train --deterministic that is about the same.
type Rejected struct {
	Argument string `json:"argument"`
	Rule     string `json:"rule"`
	Why      string `json:"why"`
	Set      string `json:"set"`
}

// rule is one of deterministic mode's, on the reference's side.
type rule struct {
	name string // of an argument or variable
	bad  func(r *Recipe, value string) bool
	of   string // the rule of run.Rules that is about the same, which says why
	set  string
}

func given(*Recipe, string) bool { return true }

func outside(allowed ...string) func(*Recipe, string) bool {
	return func(_ *Recipe, value string) bool {
		for _, token := range strings.Split(value, ",") {
			if !slices.Contains(allowed, strings.TrimSpace(token)) {
				return true
			}
		}
		return false
	}
}

func off(_ *Recipe, value string) bool { return value[0] != '1' }

// rules are those of Megatron-LM's --deterministic-mode, and the fused load-balancing loss, whose atomics it does not look at.
// Source: docs/user-guide/deterministic-training.md of Megatron-LM; its #6254.
var rules = []rule{
	{"--cross-entropy-loss-fusion", given, "fused-cross-entropy", "drop it"},
	{"--tp-comm-overlap", given, "tp-overlap", "drop it"},
	{"--moe-router-fusion", func(r *Recipe, _ string) bool { return r.balanced() }, "fused-aux-loss", "drop it"},
	{"NCCL_ALGO", outside("Ring", "CollnetDirect", "CollnetChain", "^NVLS"), "in-switch", "NCCL_ALGO=Ring"},
	{"NVTE_ALLOW_NONDETERMINISTIC_ALGO", outside("0"), "dq-atomics", "NVTE_ALLOW_NONDETERMINISTIC_ALGO=0"},
	{"CUBLAS_WORKSPACE_CONFIG", outside(":4096:8", ":16:8"), "wgrad-split-k", "CUBLAS_WORKSPACE_CONFIG=:4096:8"},
	{"MAMBA_DETERMINISTIC", off, "mamba-atomics", "MAMBA_DETERMINISTIC=1"},
	{"CAUSAL_CONV1D_DETERMINISTIC", off, "mamba-atomics", "CAUSAL_CONV1D_DETERMINISTIC=1"},
}

// Rejected lists what deterministic mode refuses of the recipe, whether it asks for it or not.
func (r *Recipe) Rejected() []Rejected {
	list := []Rejected{}
	for _, u := range rules {
		value, text := "", ""
		if a := r.find(u.name); a != nil && (len(a.Values) == 0 || a.Values[0] != "false") {
			text = a.String()
		} else if v, ok := r.variable(u.name); ok {
			value, text = v, u.name+"="+v
		}
		if text != "" && u.bad(r, value) {
			list = append(list, Rejected{text, u.of, u.why(), u.set})
		}
	}
	return list
}

// why is what the run's own rule says.
func (u rule) why() string {
	for _, own := range run.Rules() {
		if own.ID == u.of {
			return own.Why
		}
	}
	panic("recipe: no rule " + u.of) // the tables are ours
}

// balanced tells whether a load-balancing loss is trained with.
func (r *Recipe) balanced() bool { return r.experts > 0 && r.balance != "none" && r.auxCoeff > 0 }

// effective is a variable as the libraries see it: deterministic mode fills those that are not set.
func (r *Recipe) effective(name, filled string) string {
	if v, ok := r.variable(name); ok {
		return v
	}
	if r.deterministic {
		return filled
	}
	return ""
}

// algorithm is NCCL's, and whether deterministic mode takes it.
func (r *Recipe) algorithm() (algo string, fixed bool) {
	algo = r.effective("NCCL_ALGO", "Ring")
	return algo, algo != "" && !outside("Ring", "CollnetDirect", "CollnetChain", "^NVLS")(r, algo)
}

// check refuses what Megatron-LM would.
func (r *Recipe) check() error {
	switch {
	case r.bf16 && r.fp16:
		return fmt.Errorf("--bf16 and --fp16 exclude each other: name one")
	case r.pattern != "" && r.oldPattern != "":
		return fmt.Errorf("--hybrid-layer-pattern and --hybrid-override-pattern exclude each other: name one")
	}
	for _, axis := range []struct {
		name string
		n    int
	}{{"--tensor-model-parallel-size", r.tp}, {"--pipeline-model-parallel-size", r.pp}, {"--context-parallel-size", r.cp}, {"--expert-model-parallel-size", r.ep}, {"--micro-batch-size", r.microBatch}} {
		if axis.n < 1 || axis.n > 1<<14 {
			return fmt.Errorf("%s %d: must be from 1 to %d", axis.name, axis.n, 1<<14)
		}
	}
	return nil
}

// unmapped names what the recipe has by default or by value, and firstbit lacks.
func (r *Recipe) unmapped() {
	add := func(when bool, why string, names ...string) {
		if when {
			r.Unknown = append(r.Unknown, Unknown{r.because(names...), why})
		}
	}
	if !r.whole {
		r.Unknown = append(r.Unknown, Unknown{"arguments of the launch", "a config.json has none: which ranks there are, what is fused, and how the environment is set are not known"})
	}
	add(r.whole && !r.noBias, "linear layers have biases, whose gradients are sums over tokens; here they have none", "--disable-bias-linear")
	add(r.whole && r.normalization != "RMSNorm", "norms subtract a mean, one sum more; here they are RMSNorm", "--normalization")
	add(r.whole && r.attentionDropout > 0 && strings.ContainsAny(r.main(), "*"), "attention drops probabilities; here it drops none", "--attention-dropout")
	add(r.optimizer != "adam", "here it is AdamW", "--optimizer")
	add(r.load != "" && (r.noLoadRNG || r.noSaveRNG) && (r.hiddenDropout > 0 || r.attentionDropout > 0 || r.jitter > 0), "a run that continues draws other numbers than one that never stopped: firstbit reproduce rng-omission", "--no-load-rng", "--no-save-rng")
	add(r.load != "" && (r.noLoadOptim || r.noSaveOptim), "a run that continues has other moments than one that never stopped: firstbit reproduce step-counter", "--no-load-optim", "--no-save-optim")
	add(r.graphs != "none", "graphs replay kernels; nothing here does", "--cuda-graph-impl")
	add(r.fp8 != "" && !slices.Contains([]string{"delayed", "tensorwise", "mxfp8"}, r.fp8Recipe), "the nearest here is fp8 by the current maximum", "--fp8-recipe")
	add(r.experts > 0 && !slices.Contains([]string{"aux_loss", "seq_aux_loss", "none"}, r.balance), "the nearest here is the loss of a batch", "--moe-router-load-balancing-type")
	add(strings.ContainsAny(r.pattern+r.oldPattern, "GD+"), "layers G, D and + of the pattern are not built here; + stands as *", "--hybrid-layer-pattern", "--hybrid-override-pattern")
	add(r.whole && r.world == 0, "how many ranks there are is not in the file: data parallelism may begin any cause of two ranks and more", launch)
	if size := r.tp * r.pp * r.cp; r.world > 0 && r.world%size != 0 {
		r.Unknown = append(r.Unknown, Unknown{fmt.Sprintf("%d ranks", r.world), fmt.Sprintf("tp·pp·cp is %d, which does not divide them: the launch is another", size)})
	}
}

// main is the kinds of layers of the small pattern.
func (r *Recipe) main() string { kinds, _ := r.kinds(); return kinds }
