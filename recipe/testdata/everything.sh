#!/bin/bash
# A recipe that leaves open everything that arguments and environment decide.
export NCCL_DEBUG=WARN
NODES=${NODES:-2}
MODEL=(
    --hybrid-layer-pattern "ME*EM-M*"
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --hidden-size 2048 --seq-length 4096 --max-position-embeddings 4096
    --normalization RMSNorm --disable-bias-linear --attention-dropout 0 --hidden-dropout 0
    --untie-embeddings-and-output-weights
)
EXPERTS="--num-experts 64 --moe-router-topk 6 --moe-grouped-gemm --use-transformer-engine-op-fuser --moe-router-fusion"
EXPERTS+=" --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 --moe-router-dtype fp32"
if [[ $NODES -gt 1 ]]; then
    PARALLEL="--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --expert-model-parallel-size 4"
fi
torchrun --nproc-per-node 8 --nnodes $NODES pretrain_hybrid.py "${MODEL[@]}" $EXPERTS $PARALLEL \
    --micro-batch-size 1 --global-batch-size 64 --bf16 --recompute-granularity selective \
    --delay-wgrad-compute --overlap-moe-expert-parallel-comm --cross-entropy-loss-fusion --clip-grad 1.0
