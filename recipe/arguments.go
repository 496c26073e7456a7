package recipe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// job is what a recipe says, by Megatron-LM's defaults where it says nothing.
type job struct {
	world, node                                                       int // ranks of the launch, and of a node; 0: not known
	tp, pp, cp, ep, etp, vppLayers, vppStages                         int
	microBatch, globalBatch                                           int
	layers, heads, kvHeads, experts, topK, groups, groupsKept, shared int
	latent, mtp                                                       int
	gqa, untied                                                       bool
	pattern, oldPattern, moeEvery                                     string
	hiddenDropout, attentionDropout, jitter                           float64
	auxCoeff, zCoeff, clip                                            float64
	balance, score, routerDtype                                       string
	preSoftmax, expertBias, groupedGEMM, opFuser, routerFusion        bool
	permuteFusion                                                     bool
	bf16, fp16                                                        bool
	fp8, fp8Recipe, fp4                                               string
	recomputeAll                                                      bool
	recompute                                                         string
	distributed, overlapReduce, overlapGather                         bool
	attention, optimizer, normalization                               string
	perToken, noLoadRNG, noSaveRNG, noLoadOptim, noSaveOptim          bool
	deterministic, fusedLoss, overlapTP, delayWgrad, overlapExperts   bool
	asyncSave, noBias                                                 bool
	graphs                                                            string
	load                                                              string
	resetAttention                                                    bool
}

// field is an argument that is mapped.
type field struct {
	name string
	into any // *int, *float64, *string or *bool
}

// fields are the arguments that decide the small configuration or an exposure.
func (j *job) fields() []field {
	return []field{
		{"--tensor-model-parallel-size", &j.tp}, {"--pipeline-model-parallel-size", &j.pp}, {"--context-parallel-size", &j.cp},
		{"--expert-model-parallel-size", &j.ep}, {"--expert-tensor-parallel-size", &j.etp},
		{"--num-layers-per-virtual-pipeline-stage", &j.vppLayers}, {"--num-virtual-stages-per-pipeline-rank", &j.vppStages},
		{"--micro-batch-size", &j.microBatch}, {"--global-batch-size", &j.globalBatch},
		{"--num-layers", &j.layers}, {"--num-attention-heads", &j.heads}, {"--num-query-groups", &j.kvHeads}, {"--group-query-attention", &j.gqa},
		{"--hybrid-layer-pattern", &j.pattern}, {"--hybrid-override-pattern", &j.oldPattern}, {"--moe-layer-freq", &j.moeEvery},
		{"--num-experts", &j.experts}, {"--moe-router-topk", &j.topK}, {"--moe-router-num-groups", &j.groups}, {"--moe-router-group-topk", &j.groupsKept},
		{"--moe-shared-expert-intermediate-size", &j.shared}, {"--moe-latent-size", &j.latent},
		{"--moe-router-load-balancing-type", &j.balance}, {"--moe-aux-loss-coeff", &j.auxCoeff}, {"--moe-z-loss-coeff", &j.zCoeff},
		{"--moe-router-score-function", &j.score}, {"--moe-router-pre-softmax", &j.preSoftmax}, {"--moe-router-dtype", &j.routerDtype},
		{"--moe-router-enable-expert-bias", &j.expertBias}, {"--moe-input-jitter-eps", &j.jitter},
		{"--moe-grouped-gemm", &j.groupedGEMM}, {"--use-transformer-engine-op-fuser", &j.opFuser}, {"--moe-router-fusion", &j.routerFusion},
		{"--moe-permute-fusion", &j.permuteFusion}, {"--mtp-num-layers", &j.mtp},
		{"--hidden-dropout", &j.hiddenDropout}, {"--attention-dropout", &j.attentionDropout}, {"--untie-embeddings-and-output-weights", &j.untied},
		{"--bf16", &j.bf16}, {"--fp16", &j.fp16}, {"--fp8-format", &j.fp8}, {"--fp8-recipe", &j.fp8Recipe}, {"--fp4-format", &j.fp4},
		{"--recompute-activations", &j.recomputeAll}, {"--recompute-granularity", &j.recompute},
		{"--use-distributed-optimizer", &j.distributed}, {"--overlap-grad-reduce", &j.overlapReduce}, {"--overlap-param-gather", &j.overlapGather},
		{"--clip-grad", &j.clip}, {"--optimizer", &j.optimizer}, {"--normalization", &j.normalization}, {"--attention-backend", &j.attention},
		{"--calculate-per-token-loss", &j.perToken}, {"--no-load-rng", &j.noLoadRNG}, {"--no-save-rng", &j.noSaveRNG},
		{"--no-load-optim", &j.noLoadOptim}, {"--no-save-optim", &j.noSaveOptim}, {"--load", &j.load}, {"--async-save", &j.asyncSave},
		{"--deterministic-mode", &j.deterministic}, {"--cross-entropy-loss-fusion", &j.fusedLoss}, {"--tp-comm-overlap", &j.overlapTP},
		{"--delay-wgrad-compute", &j.delayWgrad}, {"--overlap-moe-expert-parallel-comm", &j.overlapExperts}, {"--cuda-graph-impl", &j.graphs},
		{"--disable-bias-linear", &j.noBias}, {"--reset-attention-mask", &j.resetAttention},
	}
}

// defaults are Megatron-LM's for what a recipe does not say.
func defaults() job {
	return job{tp: 1, pp: 1, cp: 1, ep: 1, microBatch: 1, topK: 2, hiddenDropout: 0.1, attentionDropout: 0.1, clip: 1, balance: "aux_loss", score: "softmax",
		fp8Recipe: "delayed", optimizer: "adam", normalization: "LayerNorm", attention: "auto", graphs: "none"}
}

// harmless are arguments that choose no order of a sum, no rounding and no state: where files lie, what is printed, how long it runs, sizes
// and rates, and functions of one element at a time.
var harmless = strings.Fields(`
--save --save-interval --save-retain-interval --exit-interval --exit-duration-in-mins --train-iters --train-samples --ckpt-format --ckpt-fully-parallel-save
--ckpt-fully-parallel-load --no-ckpt-fully-parallel-save --ckpt-assume-constant-structure --auto-detect-ckpt-format --use-checkpoint-opt_param-scheduler
--override-opt_param-scheduler --use-checkpoint-args --dist-ckpt-strictness --dist-ckpt-optim-fully-reshardable --use-persistent-ckpt-worker --use-dist-ckpt --async-strategy
--async-ckpt-use-cpu-shm --no-use-tokenizer-model-from-checkpoint-args --pretrained-checkpoint --finetune --wandb-save-dir
--log-interval --log-throughput --log-progress --log-params-norm --log-num-zeros-in-grad --log-timers-to-tensorboard --log-memory-to-tensorboard
--log-validation-ppl-to-tensorboard --log-world-size-to-tensorboard --logging-level --timing-log-level --timing-log-option --tensorboard-dir
--tensorboard-log-interval --tensorboard-queue-size --wandb-project --wandb-exp-name --wandb-entity --moe-per-layer-logging --straggler-minmax-count
--log-straggler --profile --profile-step-start --profile-step-end --profile-ranks --use-pytorch-profiler --record-memory-history --check-weight-hash-across-dp-replicas-interval
--eval-iters --eval-interval --eval-global-batch-size --test-mode --skip-train --no-check-for-nan-in-loss-and-grad --check-for-nan-in-loss-and-grad --check-for-spiky-loss --check-for-large-grads
--rerun-mode --distributed-timeout-minutes --distributed-backend --disable-gloo-process-groups --local-rank --manual-gc --manual-gc-interval --empty-unused-memory-level --init-model-with-meta-device
--use-mcore-models --transformer-impl --enable-experimental --mock-data --data-path --data-cache-path --split --train-data-path --valid-data-path --test-data-path --vocab-file --merge-file --vocab-size --make-vocab-size-divisible-by
--tokenizer-type --tokenizer-model --tiktoken-pattern --tokenizer-hf-include-special-tokens --num-workers --no-mmap-bin-files --no-create-attention-mask-in-dataloader
--dataloader-type --seed --export-model-type --is-hybrid-model
--seq-length --max-position-embeddings --hidden-size --ffn-hidden-size --moe-ffn-hidden-size --kv-channels --mamba-num-heads --mamba-head-dim --mamba-state-dim --mamba-num-groups
--moe-router-topk-scaling-factor --moe-router-bias-update-rate --mtp-loss-scaling-factor --init-method-std --norm-epsilon --layernorm-epsilon --apply-layernorm-1p
--lr --min-lr --lr-decay-style --lr-decay-iters --lr-decay-samples --lr-warmup-iters --lr-warmup-samples --lr-warmup-fraction --lr-warmup-init --decoupled-lr --decoupled-min-lr --lr-wsd-decay-style --lr-wsd-decay-iters --lr-wsd-decay-samples
--weight-decay --start-weight-decay --end-weight-decay --weight-decay-incr-style --apply-wd-to-qk-layernorm --adam-beta1 --adam-beta2 --adam-eps --initial-loss-scale --loss-scale-window --min-loss-scale --hysteresis
--swiglu --squared-relu --quick-geglu --activation-func-clamp-value --glu-linear-offset --use-fused-weighted-squared-relu
--position-embedding-type --rotary-base --rotary-percent --rotary-interleaved --rotary-seq-len-interpolation-factor --rope-type --rope-scaling-factor --use-rope-scaling
--use-rotary-position-embeddings --no-position-embedding --no-rope-fusion --rotary-scaling-factor --mscale --mscale-all-dim
--no-bias-gelu-fusion --no-bias-swiglu-fusion --no-bias-dropout-fusion --no-masked-softmax-fusion --attention-softmax-in-fp32 --apply-query-key-layer-scaling
--sequence-parallel --use-flash-attn --accumulate-allreduce-grads-in-fp32 --no-gradient-accumulation-fusion --moe-token-dispatcher-type --no-persist-layer-norm
--cross-entropy-fusion-impl --recompute-num-layers --recompute-method --recompute-modules --spec --use-tp-pp-dp-mapping --step-batch-size-schedule --rampup-batch-size
--ddp-bucket-size --ddp-num-buckets`)

// variables are those of the environment that decide an exposure, and those that do not.
var (
	variables = []string{"CAUSAL_CONV1D_DETERMINISTIC", "CUBLAS_WORKSPACE_CONFIG", "MAMBA_DETERMINISTIC", "NCCL_ALGO", "NCCL_NVLS_ENABLE", "NVTE_ALLOW_NONDETERMINISTIC_ALGO"}
	ofLibrary = []string{"NCCL_", "NVTE_", "CUBLAS", "CUBLASLT", "CUDNN", "TORCH_", "PYTORCH_", "TRITON_", "MAMBA_", "CAUSAL_CONV1D_", "CUDA_"}
	quiet     = strings.Fields(`CUDA_DEVICE_MAX_CONNECTIONS CUDA_VISIBLE_DEVICES NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_IB_SL NCCL_IB_TIMEOUT NCCL_IB_QPS_PER_CONNECTION NCCL_IB_HCA NCCL_SOCKET_IFNAME
NCCL_AVOID_RECORD_STREAMS TORCH_NCCL_AVOID_RECORD_STREAMS TORCH_NCCL_ASYNC_ERROR_HANDLING PYTORCH_CUDA_ALLOC_CONF TRITON_CACHE_DIR TRITON_CACHE_MANAGER`)
)

// known tells whether a variable is one of the libraries that a job runs on.
func known(name string) bool {
	return slices.ContainsFunc(ofLibrary, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// understand maps arguments, and names those that it cannot.
func (r *Recipe) understand() error {
	world, node := r.world, r.node
	r.job = defaults()
	r.world, r.node = world, node
	fields := r.fields()
	for _, a := range r.Arguments {
		if slices.Contains(harmless, a.Name) {
			r.Harmless++
			continue
		}
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == a.Name })
		if at < 0 {
			r.Unmapped++
			r.Unknown = append(r.Unknown, Unknown{a.String(), "nothing here stands for it"})
			continue
		}
		if err := r.assign(fields[at], a); err != nil {
			return err
		}
	}
	for _, v := range r.Env {
		if known(v.Name) && !slices.Contains(variables, v.Name) && !slices.Contains(quiet, v.Name) {
			r.Unknown = append(r.Unknown, Unknown{v.Name + "=" + v.Value, "nothing here stands for it"})
		}
	}
	if err := r.check(); err != nil {
		return err
	}
	r.unmapped()
	return nil
}

// assign reads an argument's value. One that comes from outside the file, such as a script's $1, is empty.
func (r *Recipe) assign(f field, a Argument) error {
	value := strings.TrimSpace(strings.Join(a.Values, " "))
	bad := func(must string) error { return fmt.Errorf("%s %q: must be %s", a.Name, value, must) }
	if b, ok := f.into.(*bool); ok {
		switch strings.ToLower(value) {
		case "", "true":
			*b = true
		case "false":
			*b = false
		default:
			return bad("without a value")
		}
		return nil
	}
	if value == "" {
		if s, ok := f.into.(*string); ok && a.Name == "--load" {
			*s = "?" // wherever it is
			return nil
		}
		r.Unknown = append(r.Unknown, Unknown{a.Name, "without a value: it comes from outside the file, --env NAME=VALUE gives it"})
		return nil
	}
	switch into := f.into.(type) {
	case *int:
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > 1<<30 {
			return bad("a whole number from 0 on")
		}
		*into = n
	case *float64:
		n, err := strconv.ParseFloat(strings.Fields(value)[0], 64) // a list where there are several losses
		if err != nil || !(n >= 0 && n < 1e6) {
			return bad("a number from 0 on")
		}
		*into = n
	case *string:
		*into = value
	}
	return nil
}

// launcher reads how many ranks a launcher starts.
func (r *Recipe) launcher(words []string, env []Setting) {
	number := func(names ...string) int {
		for i, w := range words {
			name, value, ok := strings.Cut(w, "=")
			if !ok && i+1 < len(words) {
				value = words[i+1]
			}
			if n, err := strconv.Atoi(value); err == nil && n > 0 && n < 1<<20 && slices.Contains(names, strings.ReplaceAll(name, "_", "-")) {
				return n
			}
		}
		return 0
	}
	r.node, r.world = number("--nproc-per-node"), 0
	nodes := number("--nnodes")
	if r.node > 0 && (nodes > 0 || !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "--nnodes") })) {
		r.world = r.node * max(nodes, 1)
	}
	_ = env
}
