# The arguments of tests/functional_tests/test_cases/hybrid/hybrid_mr_mcore_te_tp2_pp1_cp4_dgx_a100_1N8G/model_config.yaml
# of NVIDIA/Megatron-LM at d98e8a64ddf34856e74b24714e3bedb2f5a39553, in order of their names.
export CUBLAS_WORKSPACE_CONFIG=:4096:8
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_ALGO=Ring
export NVTE_ALLOW_NONDETERMINISTIC_ALGO=1
python pretrain.py \
  --async-save \
  --attention-backend fused \
  --attention-softmax-in-fp32 \
  --bf16 \
  --check-weight-hash-across-dp-replicas-interval 10 \
  --ckpt-format torch_dist \
  --ckpt-fully-parallel-load \
  --clip-grad 1.0 \
  --context-parallel-size 4 \
  --data-cache-path '${DATA_CACHE_PATH}' \
  --data-path '${DATA_PATH}/text/common_pile/v01_filtered_data/my-gpt3_00_text_document' \
  --dist-ckpt-optim-fully-reshardable \
  --distributed-backend nccl \
  --eval-interval 1000 \
  --eval-iters 10 \
  --global-batch-size 32 \
  --group-query-attention \
  --hidden-size 1024 \
  --hybrid-layer-pattern 'M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-' \
  --load '${CHECKPOINT_LOAD_PATH}' \
  --log-interval 1 \
  --log-memory-to-tensorboard \
  --log-num-zeros-in-grad \
  --log-params-norm \
  --log-timers-to-tensorboard \
  --log-validation-ppl-to-tensorboard \
  --lr 0.00015 \
  --lr-decay-iters 320000 \
  --lr-decay-style cosine \
  --lr-warmup-fraction .01 \
  --max-position-embeddings 1024 \
  --merge-file '${DATA_PATH}/text/common_pile/v01_filtered_data/bpe/merges.txt' \
  --micro-batch-size 4 \
  --min-lr 1.0e-5 \
  --no-gradient-accumulation-fusion \
  --num-attention-heads 16 \
  --num-query-groups 8 \
  --overlap-grad-reduce \
  --overlap-param-gather \
  --pipeline-model-parallel-size 1 \
  --save '${CHECKPOINT_SAVE_PATH}' \
  --save-interval 10000 \
  --seq-length 1024 \
  --spec '[megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec]' \
  --split '949,50,1' \
  --tensor-model-parallel-size 2 \
  --tensorboard-dir '${TENSORBOARD_PATH}' \
  --timing-log-level 0 \
  --train-iters 50 \
  --transformer-impl transformer_engine \
  --use-distributed-optimizer \
  --use-mcore-models \
  --use-persistent-ckpt-worker \
  --vocab-file '${DATA_PATH}/text/common_pile/v01_filtered_data/bpe/vocab.json' \
  --weight-decay 1e-2
