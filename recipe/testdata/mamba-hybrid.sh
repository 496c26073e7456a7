# The arguments of examples/mamba/train.sh
# of NVIDIA/Megatron-LM at d98e8a64ddf34856e74b24714e3bedb2f5a39553, in order of their names.
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_IB_QPS_PER_CONNECTION=4
export NCCL_IB_SL=1
export NCCL_IB_TIMEOUT=19
export TRITON_CACHE_DIR=./triton-cache/
export TRITON_CACHE_MANAGER=megatron.core.ssm.triton_cache_manager:ParallelFileCacheManager
torchrun --nproc-per-node 8 pretrain.py \
  --adam-beta1 0.9 \
  --adam-beta2 0.95 \
  --attention-dropout 0.0 \
  --bf16 \
  --clip-grad 1.0 \
  --data-cache-path ./data-cache \
  --data-path \
  --disable-bias-linear \
  --distributed-backend nccl \
  --eval-interval 2000 \
  --eval-iters 32 \
  --global-batch-size 32 \
  --group-query-attention \
  --hidden-dropout 0.0 \
  --hidden-size 1024 \
  --hybrid-layer-pattern 'M-M-M--M-*M-M-M-M--*M-M-M-M-*M--M-M-M-*M-M--M-M-' \
  --init-method-std 0.02 \
  --load ./checkpoints \
  --log-interval 10 \
  --lr 2.5e-4 \
  --lr-decay-samples 73192188 \
  --lr-decay-style cosine \
  --lr-warmup-samples 50000 \
  --max-position-embeddings 4096 \
  --micro-batch-size 4 \
  --min-lr 2.5e-5 \
  --no-create-attention-mask-in-dataloader \
  --normalization RMSNorm \
  --num-attention-heads 16 \
  --num-query-groups 8 \
  --overlap-grad-reduce \
  --overlap-param-gather \
  --pipeline-model-parallel-size 1 \
  --position-embedding-type none \
  --save ./checkpoints \
  --save-interval 2000 \
  --seq-length 4096 \
  --sequence-parallel \
  --spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec \
  --split '99,1,0' \
  --tensor-model-parallel-size 1 \
  --tensorboard-dir ./tensorboard \
  --tokenizer-model \
  --tokenizer-type GPTSentencePieceTokenizer \
  --train-samples 73242188 \
  --untie-embeddings-and-output-weights \
  --use-distributed-optimizer \
  --use-mcore-models \
  --weight-decay 0.1
