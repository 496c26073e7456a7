package recipe

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/experiments"
)

// Exposure is a cause of the catalog that two runs of the recipe may part by, in one environment or on two allocations of it.
type Exposure struct {
	Cause     string `json:"cause"`
	Why       string `json:"why"`
	FromRanks int    `json:"from_ranks"`
	Show      string `json:"show"`
	Cure      string `json:"cure"`
}

// Beyond is a cause that no argument decides.
type Beyond struct {
	Cause   string `json:"cause"`
	Kind    string `json:"kind"`    // defect, change, observer
	Applies bool   `json:"applies"` // to what the recipe uses
	Why     string `json:"why"`
}

// Kinds of causes, by what decides them.
const (
	byRecipe = "" // the recipe's arguments and environment
	defect   = "defect"
	change   = "change"
	observer = "observer"
)

// Kind is a kind of causes that no argument decides.
type Kind struct{ Name, Is string }

// Kinds lists those kinds.
func Kinds() []Kind {
	return []Kind{
		{change, "another machine, release, layout or kernel on one side"},
		{defect, "some release of some software has it"},
		{observer, "what looks at the runs is wrong"},
	}
}

// trait is something that a recipe has or lacks, and the arguments and variables that decide it.
type trait struct {
	name  string
	has   func(r *Recipe) bool
	cites []string
}

// traits are the words of predicates.
var traits = []trait{
	{"deterministic", func(r *Recipe) bool { return r.deterministic }, []string{"--deterministic-mode"}},
	{"fused-attention", func(r *Recipe) bool {
		return strings.Contains(r.main(), "*") && r.attention != "unfused" && r.attention != "local"
	}, []string{"--attention-backend"}},
	{"te-free", func(r *Recipe) bool { return r.effective("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0") != "0" }, []string{"NVTE_ALLOW_NONDETERMINISTIC_ALGO"}},
	{"cublas-free", func(r *Recipe) bool {
		v := r.effective("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
		return v != ":4096:8" && v != ":16:8"
	}, []string{"CUBLAS_WORKSPACE_CONFIG"}},
	{"nccl-free", func(r *Recipe) bool { _, fixed := r.algorithm(); return !fixed }, []string{"NCCL_ALGO"}},
	{"in-switch", func(r *Recipe) bool {
		algo, _ := r.algorithm()
		v, _ := r.variable("NCCL_NVLS_ENABLE")
		return algo == "" && v != "0" || strings.HasPrefix(algo, "NVLS")
	}, []string{"NCCL_ALGO", "NCCL_NVLS_ENABLE"}},
	{"ranks", func(r *Recipe) bool { return r.world != 1 || r.tp*r.pp*r.cp > 1 }, []string{launch, "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size"}},
	{"replicated", func(r *Recipe) bool { return !r.distributed && r.world != 1 }, []string{"--use-distributed-optimizer"}},
	{"norm-over-ranks", func(r *Recipe) bool { return r.distributed || r.tp*r.pp > 2 }, []string{"--use-distributed-optimizer", "--tensor-model-parallel-size", "--pipeline-model-parallel-size"}},
	{"mamba", func(r *Recipe) bool { return strings.Contains(r.main(), "M") }, []string{"--hybrid-layer-pattern", "--hybrid-override-pattern"}},
	{"scan-free", func(r *Recipe) bool { return !strings.HasPrefix(r.effective("MAMBA_DETERMINISTIC", "1"), "1") }, []string{"MAMBA_DETERMINISTIC"}},
	{"conv-free", func(r *Recipe) bool { return !strings.HasPrefix(r.effective("CAUSAL_CONV1D_DETERMINISTIC", "1"), "1") }, []string{"CAUSAL_CONV1D_DETERMINISTIC"}},
	{"moe", func(r *Recipe) bool { return strings.Contains(r.main(), "E") }, []string{"--num-experts", "--hybrid-layer-pattern"}},
	{"top3", func(r *Recipe) bool { return r.topK > 2 }, []string{"--moe-router-topk"}},
	{"fused-epilogue", func(r *Recipe) bool { return r.groupedGEMM && r.opFuser }, []string{"--moe-grouped-gemm", "--use-transformer-engine-op-fuser"}},
	{"fused-permute", func(r *Recipe) bool { return r.permuteFusion }, []string{"--moe-permute-fusion"}},
	{"fused-router", func(r *Recipe) bool { return r.routerFusion }, []string{"--moe-router-fusion"}},
	{"balanced", func(r *Recipe) bool { return r.balanced() }, []string{"--moe-router-load-balancing-type", "--moe-aux-loss-coeff"}},
	{"expert-bias", func(r *Recipe) bool { return r.expertBias }, []string{"--moe-router-enable-expert-bias"}},
	{"experts-spread", func(r *Recipe) bool { return r.experts > 0 && r.ep > 1 }, []string{"--expert-model-parallel-size"}},
	{"clipped", func(r *Recipe) bool { return r.clip > 0 }, []string{"--clip-grad"}},
	{"micros", func(r *Recipe) bool { return r.micros() > 1 }, []string{"--global-batch-size", "--micro-batch-size"}},
	{"three-micros", func(r *Recipe) bool { return r.micros() > 2 }, []string{"--global-batch-size", "--micro-batch-size"}},
	{"delayed-wgrad", func(r *Recipe) bool { return r.delayWgrad }, []string{"--delay-wgrad-compute"}},
	{"overlapped", func(r *Recipe) bool { return r.overlapReduce || r.overlapGather }, []string{"--overlap-grad-reduce", "--overlap-param-gather"}},
	{"overlapped-experts", func(r *Recipe) bool { return r.overlapExperts }, []string{"--overlap-moe-expert-parallel-comm"}},
	{"interleaved", func(r *Recipe) bool { return r.vpp() > 1 }, []string{"--num-virtual-stages-per-pipeline-rank", "--num-layers-per-virtual-pipeline-stage", "--hybrid-layer-pattern"}},
	{"stages", func(r *Recipe) bool { return r.pp > 2 }, []string{"--pipeline-model-parallel-size"}},
	{"tensor", func(r *Recipe) bool { return r.tp > 1 }, []string{"--tensor-model-parallel-size"}},
	{"recomputed", func(r *Recipe) bool { return r.recomputeAll || r.recompute != "" }, []string{"--recompute-granularity", "--recompute-activations"}},
	{"graphs", func(r *Recipe) bool { return r.graphs != "none" }, []string{"--cuda-graph-impl"}},
	{"random", func(r *Recipe) bool { return r.hiddenDropout > 0 || r.attentionDropout > 0 || r.jitter > 0 }, []string{"--hidden-dropout", "--attention-dropout", "--moe-input-jitter-eps"}},
	{"resumed", func(r *Recipe) bool { return r.load != "" }, []string{"--load"}},
	{"async-save", func(r *Recipe) bool { return r.asyncSave }, []string{"--async-save"}},
	{"fp16", func(r *Recipe) bool { return r.fp16 }, []string{"--fp16"}},
	{"sixteen-bits", func(r *Recipe) bool { return r.bf16 || r.fp16 }, []string{"--bf16", "--fp16"}},
	{"blocks", func(r *Recipe) bool { return r.fp4 != "" || r.fp8 != "" && r.fp8Recipe == "mxfp8" }, []string{"--fp8-recipe", "--fp4-format"}},
	{"delayed-scaling", func(r *Recipe) bool { return r.fp8 != "" && r.fp8Recipe == "delayed" }, []string{"--fp8-format", "--fp8-recipe"}},
	{"distributed", func(r *Recipe) bool { return r.distributed }, []string{"--use-distributed-optimizer"}},
	{"packed", func(r *Recipe) bool { return r.resetAttention }, []string{"--reset-attention-mask"}},
	{"per-token", func(r *Recipe) bool { return r.perToken }, []string{"--calculate-per-token-loss"}},
}

// row is the exposure of one cause.
type row struct {
	cause string
	kind  string
	// when is the predicate: words that must all hold, !word that must not, word|word of which one must.
	when  string
	why   string
	from  int // ranks it begins at
	shown int // data-parallel ranks of its commands, where it begins at more than one; 0: as many as it begins at
	steps int // of its commands; 0: the configuration's
	// at replaces names of Calls of the catalog's configuration by those of the small one, OLD=NEW.
	at []string
}

// rows has every cause of the catalog, once.
var rows = []row{
	{cause: "dprob-atomics", when: "moe fused-epilogue te-free", from: 1, why: "the fused grouped MLP adds the gradient of the routing probabilities by atomics"},
	{cause: "aux-loss-atomics", when: "moe fused-router balanced", from: 1, why: "the fused router adds the load-balancing loss by atomics"},
	{cause: "wgrad-splitk", when: "cublas-free", from: 1, why: "products may split their sums over streams that share a workspace", at: []string{"*.mlp.w1.dw k:splitk(4,arrival)/fp32=PRODUCT.dw k:splitk(4,arrival)/FORMAT", "*.mlp.w1.dw=PRODUCT.dw"}},
	{cause: "dq-atomics", when: "fused-attention te-free", from: 1, why: "the backend of attention may add dQ by atomics", at: []string{"arrival)/fp32=arrival)/FORMAT"}},
	{cause: "embedding-scatter", when: "!deterministic", from: 1, why: "the embedding's backward adds repeated tokens by atomics", at: []string{"tokens:arrival/fp32=tokens:arrival/FORMAT"}},
	{cause: "mamba-atomics", when: "mamba scan-free|conv-free", from: 1, why: "the backward of the scan and of the convolution adds by atomics"},
	{cause: "unpermute-scatter", when: "moe top3 !fused-permute !deterministic", from: 1, why: "the combine adds a token's experts by scatter_add, and more than two summands do not commute", at: []string{"slots:arrival/fp32=slots:arrival/FORMAT"}},
	{cause: "scale-collective", when: "ranks nccl-free", from: 5, why: "NCCL picks the algorithm by size and ranks, and beyond a node one that adds what comes first"},
	{cause: "ring-permutation", when: "ranks", from: 3, shown: 4, why: "another allocation has another ring; no argument pins it, and the reference calls it open"},
	{cause: "switch-history", when: "ranks in-switch", from: 3, why: "NVLS may add in the switch, in an order that other communicators have a part in"},
	{cause: "microbatch-order", when: "three-micros delayed-wgrad !deterministic", from: 1, why: "weight gradients of microbatches are computed on a stream of their own, and added as they complete"},
	{cause: "clip-norm", when: "clipped ranks norm-over-ranks nccl-free", from: 3, shown: 8, steps: 32, why: "the ranks' shares of the norm are added by whatever algorithm NCCL picks"},
	{cause: "replica-norm", when: "replicated clipped !deterministic", from: 2, why: "every replica clips by a norm of its own, and nothing brings their weights together"},
	{cause: "autotune-swap", when: "mamba scan-free", from: 1, why: "the scan's Triton kernels are tuned by their timings in every process", at: []string{"layers.?.mlp.*=layers.?.ssm.in_proj*", "layers.?.mlp.w?.d?=layers.?.ssm.in_proj.d?", "layers.?.mlp.w?=layers.?.ssm.in_proj"}},
	{cause: "ssd-chunk", when: "mamba scan-free", from: 1, why: "the tuner picks the scan's blocks by their timings"},
	{cause: "racing-config", when: "mamba scan-free", from: 1, why: "among the configurations that are tuned one may race", at: []string{"steps:arrival=steps:arrival/FORMAT"}},
	{cause: "recomputed-router", when: "moe recomputed cublas-free", from: 1, why: "the recomputed logits may be added in another order than the forward's, and take other experts"},

	{cause: "bucket-size", kind: change, when: "ranks", why: "two runs of one recipe have one bucket size"},
	{cause: "library-update", kind: change, why: "another release of the libraries"},
	{cause: "sm-count", kind: change, when: "moe fused-router balanced", why: "another model of GPU"},
	{cause: "gpu-generation", kind: change, why: "another generation of GPU"},
	{cause: "fma-contraction", kind: change, why: "another compiler"},
	{cause: "topk-ties", kind: change, when: "moe", why: "another kernel of the router: --moe-router-fusion on one side"},
	{cause: "topk-slots", kind: change, when: "moe top3", why: "another kernel of the router: --moe-router-fusion on one side"},
	{cause: "rng-shard", kind: change, when: "random", why: "another layout"},
	{cause: "layout-order", kind: change, why: "another layout"},
	{cause: "chunk-boundary", kind: change, when: "mamba", why: "another layout"},
	{cause: "rows-tile", kind: change, why: "another size of microbatches"},
	{cause: "bit-flip", kind: change, why: "a machine that errs"},

	{cause: "late-flag", kind: defect, when: "deterministic", why: "kernels set up before the flag is"},
	{cause: "buffer-alias", kind: defect, when: "moe experts-spread interleaved overlapped-experts", why: "chunks that share a dispatch buffer"},
	{cause: "stale-read", kind: defect, when: "moe", why: "a workspace that is not filled"},
	{cause: "bucket-reuse", kind: defect, when: "ranks overlapped", why: "a bucket that is used again too early"},
	{cause: "bucket-rewrite", kind: defect, when: "ranks overlapped", why: "a bucket that is written too early"},
	{cause: "static-gradient", kind: defect, when: "graphs micros", why: "a graph's buffer that becomes the gradient"},
	{cause: "tuning-writes", kind: defect, when: "mamba scan-free", why: "timing runs that add into the live output"},
	{cause: "reduction-tuning", kind: defect, why: "a cache of tuned kernels that leaves out reductions"},
	{cause: "router-gradient", kind: defect, when: "moe tensor", why: "an all-reduce that is left out"},
	{cause: "recompute-counts", kind: defect, when: "moe recomputed expert-bias", why: "a count that recomputation repeats"},
	{cause: "rng-live-handle", kind: defect, when: "random recomputed", why: "recomputation that draws from the live stream"},
	{cause: "loader-draw", kind: defect, when: "random tensor", why: "a loader that draws from a stream of training"},
	{cause: "found-inf", kind: defect, when: "fp16 ranks", why: "an overflow that ranks do not share"},
	{cause: "normaliser-local", kind: defect, when: "per-token ranks", why: "labels that are not added up over ranks"},
	{cause: "mean-of-means", kind: defect, when: "micros !per-token", why: "means of microbatches taken for the mean of tokens"},
	{cause: "short-window", kind: defect, when: "micros !per-token", why: "a window divided by the full number"},
	{cause: "mask-lost", kind: defect, when: "packed", why: "a mask that is lost on its way"},
	{cause: "stage-boundaries", kind: defect, when: "packed stages tensor", why: "boundaries that middle stages lack"},
	{cause: "replica-drift", kind: defect, when: "replicated", why: "a replica that nothing compares"},

	{cause: "rng-omission", kind: defect, when: "resumed random", why: "a stream that a checkpoint lacks"},
	{cause: "rng-dedupe", kind: defect, when: "resumed experts-spread", why: "streams saved of one replica"},
	{cause: "rng-extra-draw", kind: defect, when: "resumed random", why: "a draw after the restore"},
	{cause: "rng-reseed", kind: defect, when: "resumed random", why: "streams seeded after the restore"},
	{cause: "scale-rebuild", kind: defect, when: "resumed blocks", why: "scales rebuilt another way"},
	{cause: "mx-double-quant", kind: defect, when: "resumed blocks", why: "weights quantised twice"},
	{cause: "amax-history", kind: defect, when: "resumed delayed-scaling", why: "a history that a checkpoint lacks"},
	{cause: "data-offset", kind: defect, when: "resumed", why: "a position that is not restored"},
	{cause: "data-epoch", kind: defect, when: "resumed", why: "an epoch that is counted twice"},
	{cause: "gather-skip", kind: defect, when: "resumed distributed sixteen-bits", why: "a gather that is left out"},
	{cause: "step-counter", kind: defect, when: "resumed", why: "a count that is not restored"},
	{cause: "bias-drift", kind: defect, when: "resumed expert-bias", why: "a bias that is not restored"},
	{cause: "lr-position", kind: defect, when: "resumed", why: "a position that is advanced twice"},
	{cause: "synthetic-step", kind: defect, when: "resumed distributed", why: "a step that only allocates"},
	{cause: "torn-checkpoint", kind: defect, when: "resumed async-save", why: "tensors that change while they are saved"},
	{cause: "stale-moments", kind: defect, when: "resumed async-save", why: "moments of an earlier save"},
	{cause: "loss-scale", kind: defect, when: "resumed fp16", why: "a scale that is not restored"},

	{cause: "blind-spot", kind: observer, why: "a kernel that a tracer does not see"},
	{cause: "probe-uninit", kind: observer, why: "a tracer that reads too early"},
	{cause: "probe-async", kind: observer, why: "a tracer that reads too early"},
	{cause: "probe-copy", kind: observer, why: "a tracer that reads too early"},
	{cause: "xor-permutation", kind: observer, when: "moe", why: "a digest that forgets places"},
	{cause: "scales-only", kind: observer, when: "blocks", why: "a digest without the scales"},
	{cause: "signed-zero", kind: observer, why: "a comparison by value"},
	{cause: "dtype-twin", kind: observer, why: "a digest without the format"},
	{cause: "one-bad-member", kind: observer, when: "ranks", why: "a collective blamed for what one member brought"},
	{cause: "key-order-first", kind: observer, why: "mismatches sorted by name"},
	{cause: "missing-record", kind: observer, why: "records paired by number"},
	{cause: "printed-loss", kind: observer, why: "a loss printed to six decimals"},
	{cause: "probe-sync", kind: observer, when: "ranks", why: "a tracer that orders ranks"},
	{cause: "probe-effect", kind: observer, when: "random", why: "a tracer that draws"},
}

// Predicate is when a recipe is exposed to a cause.
type Predicate struct {
	Cause, When string // words that must all hold, !word that must not, word|word of which one must
	Why         string
	FromRanks   int
}

// Predicates lists them for the causes that a recipe decides.
func Predicates() (list []Predicate) {
	for _, x := range rows {
		if x.kind == byRecipe {
			list = append(list, Predicate{x.cause, x.when, x.why, x.from})
		}
	}
	return list
}

// holds evaluates a predicate, and cites what decided it.
func (r *Recipe) holds(when string) (ok bool, because []string) {
	for _, literal := range strings.Fields(when) {
		any := false
		for _, name := range strings.Split(literal, "|") {
			name, negated := strings.CutPrefix(name, "!")
			i := slices.IndexFunc(traits, func(t trait) bool { return t.name == name })
			if i < 0 {
				panic(fmt.Sprintf("recipe: no trait %q", name)) // the table is ours
			}
			if traits[i].has(r) != negated {
				any = true
				if text := r.because(traits[i].cites...); !slices.Contains(because, text) {
					because = append(because, text)
				}
			}
		}
		if !any {
			return false, nil
		}
	}
	return true, because
}

// Exposures lists what two runs of the recipe may part by. Commands name the small configuration as the file config.
func (r *Recipe) Exposures(s Small, config string) ([]Exposure, error) {
	list := []Exposure{}
	for _, x := range rows {
		ok, because := r.holds(x.when)
		if x.kind != byRecipe || !ok {
			continue
		}
		c, err := experiments.Find(x.cause)
		if err != nil {
			return nil, err
		}
		e := Exposure{Cause: x.cause, Why: fmt.Sprintf("%s (%s)", x.why, strings.Join(because, "; ")), FromRanks: x.from}
		e.Show, e.Cure = x.commands(c, s, config)
		list = append(list, e)
	}
	return list, nil
}

// Beyond lists the causes that no argument of the recipe decides.
func (r *Recipe) Beyond() []Beyond {
	var list []Beyond
	for _, x := range rows {
		if x.kind != byRecipe {
			ok, _ := r.holds(x.when)
			list = append(list, Beyond{x.cause, x.kind, ok, x.why})
		}
	}
	return list
}
