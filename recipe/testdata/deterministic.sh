# The same with deterministic mode, its environment, and without what it rejects.
NCCL_ALGO=Ring NVTE_ALLOW_NONDETERMINISTIC_ALGO=0 CUBLAS_WORKSPACE_CONFIG=:4096:8 MAMBA_DETERMINISTIC=1 CAUSAL_CONV1D_DETERMINISTIC=1 \
torchrun --nproc-per-node=8 --nnodes=2 pretrain_hybrid.py --deterministic-mode \
    --hybrid-layer-pattern 'ME*EM-M*' --num-attention-heads=32 --group-query-attention --num-query-groups=8 \
    --hidden-size=2048 --seq-length=4096 --max-position-embeddings=4096 \
    --normalization=RMSNorm --disable-bias-linear --attention-dropout=0 --hidden-dropout=0 \
    --untie-embeddings-and-output-weights \
    --num-experts=64 --moe-router-topk=6 --moe-grouped-gemm --use-transformer-engine-op-fuser \
    --moe-router-load-balancing-type=aux_loss --moe-aux-loss-coeff=1e-2 --moe-router-dtype=fp32 \
    --tensor-model-parallel-size=2 --pipeline-model-parallel-size=2 --expert-model-parallel-size=4 \
    --micro-batch-size=1 --global-batch-size=64 --bf16 --recompute-granularity=selective \
    --delay-wgrad-compute --overlap-moe-expert-parallel-comm --clip-grad=1.0
