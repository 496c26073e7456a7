# The arguments of examples/gpt3/train_gpt3_175b_distributed.sh
# of NVIDIA/Megatron-LM at d98e8a64ddf34856e74b24714e3bedb2f5a39553, in order of their names.
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc-per-node 8 pretrain.py \
  --adam-beta1 0.9 \
  --adam-beta2 0.95 \
  --attention-backend auto \
  --clip-grad 1.0 \
  --data-path \
  --eval-interval 1000 \
  --eval-iters 10 \
  --fp16 \
  --global-batch-size 1536 \
  --hidden-size 12288 \
  --init-method-std 0.006 \
  --load \
  --log-interval 100 \
  --lr 6.0e-5 \
  --lr-decay-iters 430000 \
  --lr-decay-style cosine \
  --lr-warmup-fraction .001 \
  --max-position-embeddings 2048 \
  --merge-file \
  --micro-batch-size 1 \
  --min-lr 6.0e-6 \
  --num-attention-heads 96 \
  --num-layers 96 \
  --pipeline-model-parallel-size 16 \
  --save \
  --save-interval 10000 \
  --seq-length 2048 \
  --split '949,50,1' \
  --step-batch-size-schedule 0:16 2.4B:320 4.8B:624 7.2B:928 9.6B:1232 12B:1536 \
  --tensor-model-parallel-size 8 \
  --tensorboard-dir \
  --train-iters 500000 \
  --vocab-file \
  --weight-decay 0.1
