# The arguments of examples/bert/train_bert_340m_distributed.sh
# of NVIDIA/Megatron-LM at d98e8a64ddf34856e74b24714e3bedb2f5a39553, in order of their names.
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc-per-node 8 pretrain.py \
  --attention-backend auto \
  --clip-grad 1.0 \
  --data-path \
  --eval-interval 1000 \
  --eval-iters 10 \
  --fp16 \
  --global-batch-size 32 \
  --hidden-size 1024 \
  --load \
  --log-interval 100 \
  --lr 0.0001 \
  --lr-decay-iters 990000 \
  --lr-decay-style linear \
  --lr-warmup-fraction .01 \
  --max-position-embeddings 512 \
  --micro-batch-size 4 \
  --min-lr 1.0e-5 \
  --num-attention-heads 16 \
  --num-layers 24 \
  --pipeline-model-parallel-size 16 \
  --save \
  --save-interval 10000 \
  --seq-length 512 \
  --split '949,50,1' \
  --tensor-model-parallel-size 8 \
  --tensorboard-dir \
  --train-iters 1000000 \
  --vocab-file \
  --weight-decay 1e-2
