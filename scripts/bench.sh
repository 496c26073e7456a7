#!/usr/bin/env bash
# Runs the benchmarks and writes the cost table and the taxes between the markers of docs/cost.md. Every figure of the table is
# the median of three; ratios are of figures taken in one run.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

{ go test ./kernel -run '^$' -bench '(MatMul(NN|NT|TN|Blocked64|Perm)|Tile4x2)$' -count 3 -benchtime 0.5s
  go test ./ssm -run '^$' -bench '(SSD|SSDNaive|SSDBackward|CausalConv|GatedNorm)$' -count 3 -benchtime 0.5s; } | tee "$dir/kernel"
go test ./reduce -run '^$' -cpu 1 -bench 'OrderFree' -benchtime 20000x -count 3 | tee "$dir/orderfree"
go test ./kernel -run '^$' -bench 'LanesOfABatch' -benchtime 5000x -count 3 | tee "$dir/lanes"
go test ./device -run '^$' -bench 'Door/4_idle' -benchmem -count 3 | tee "$dir/device"
go test ./run -run '^$' -bench 'Step' -benchmem -count 3 -benchtime 2s | tee "$dir/step"
go test ./run -run '^$' -bench '^BenchmarkRanks$' -benchtime 40x -count 3 | tee "$dir/ranks"
go test ./run -run '^$' -bench 'EightRanks' -benchtime 3x -count 5 | tee "$dir/eight"
go test ./run -run '^$' -bench 'TensorCores' -benchtime 10x -count 3 | tee "$dir/tensorcores"
go test ./run -run '^$' -bench 'Replicas' -benchtime 2x -count 3 | tee "$dir/replicas"
go test ./quant -run '^$' -cpu 1 -bench 'Quantise' -count 3 -benchtime 0.3s | tee "$dir/quantise"
go test ./checkpoint -run '^$' -bench 'Save|Restore' -count 3 | tee "$dir/checkpoint"
go test ./run -run '^$' -bench 'Tracing' -benchtime 10x -count 3 | tee "$dir/tracing"
go build -o "$dir/firstbit" ./cmd/firstbit
for preset in small gpt; do
  echo "\`firstbit tax --preset $preset --threads 2 --pairs 100 --gpus 1024 --days 60\`:"
  printf '\n```text\n'
  "$dir/firstbit" tax --preset "$preset" --threads 2 --pairs 100 --gpus 1024 --days 60 | sed 's/ *$//'
  printf '```\n\n'
done | tee "$dir/tax"

# median FILE BENCHMARK UNIT: the median of the numbers before UNIT.
median() {
  awk -v name="^Benchmark$2(-[0-9]+)?$" -v unit="$3" '$1 ~ name { for (i = 2; i < NF; i++) if ($(i + 1) == unit) print $i }' "$dir/$1" |
    sort -g | awk '{ v[NR] = $1 } END { if (NR == 0) exit 1; printf "%.6g", v[int((NR + 1) / 2)] }'
}
us() { awk -v v="$1" 'BEGIN { printf "%.0f µs", v / 1e3 }'; }
ms() { awk -v v="$1" 'BEGIN { printf "%.1f ms", v / 1e6 }'; }

{
  echo "| what | measured | beside |"
  echo "|---|---|---|"
  echo "| plain Go 4×2 register tile, 256³ | $(median kernel Tile4x2 GFLOP/s) GFLOP/s | |"
  for kind in NN NT TN Blocked64 Perm; do
    echo "| matrix product $kind, 256³ | $(median kernel "MatMul$kind" GFLOP/s) GFLOP/s | $(median kernel "MatMul$kind" ×tile4x2) of the tile's |"
  done
  for way in "lanes(8) eight lanes" "binned a binned sum" "exact an exact sum"; do
    echo "| a value of one vector in cache by ${way#* } | $(median orderfree OrderFree "${way%% *}") | of a loop in order |"
  done
  echo "| a leaf by eight lanes in a product | $(median lanes LanesOfABatch of_in_order) | of a loop in order |"
  for preset in tiny small gpt; do
    echo "| forward + backward + AdamW, preset $preset | $(ms "$(median step "Step/$preset" ns/op)") | $(median step "Step/$preset" allocs/op) allocations |"
  done
  echo "| a Call through four idle middlewares | $(median device 'Door/4_idle_middlewares' ns/op) ns | $(median device 'Door/4_idle_middlewares' allocs/op) allocations |"
  for kernel in SSD SSDNaive SSDBackward; do
    echo "| $kernel, 8 heads of 16×16 in chunks of 16 | $(median kernel "$kernel" ns/token) ns a token | |"
  done
  echo "| causal convolution, 4 taps | $(median kernel CausalConv ns/element) ns an element | |"
  echo "| gated norm | $(median kernel GatedNorm ns/element) ns an element | |"
  echo "| eight ranks beside one on the same batch, preset small | $(median eight EightRanks eight/one) | of one rank's step |"
  echo "| eight ranks that send buckets during the backward | $(median replicas Replicas overlap/plain) | of eight that send them after it |"
  echo "| eight ranks with a replicated optimizer | $(median replicas Replicas replicated/plain) | of eight with a distributed one |"
  for p in "fp32 hopper" "bf16 hopper" "fp16 hopper" "fp8 hopper" "mxfp8 blackwell" "nvfp4 blackwell"; do
    echo "| a step of small in ${p% *}, its products on tensor cores of ${p#* } | $(median tensorcores TensorCores "${p% *}/plain") | of a step in fp32 without |"
  done
  for n in 1 8 64 512 2432; do
    echo "| a step of one of $n ranks, preset pico | $(us "$(median ranks "Ranks/dp=$n" ns/rank-step)") | $(median ranks "Ranks/dp=$n" KiB/rank) KiB a rank |"
  done
  for q in "ScaledE4M3 fp8, one scale" "MXRows mxfp8, along rows" "MXColumns mxfp8, along columns" "NVFP4 nvfp4" "NVFP4Square nvfp4, square blocks" "NVFP4Stochastic nvfp4, rounded at random"; do
    echo "| quantising: ${q#* } | $(awk -v v="$(median quantise "Quantise/${q%% *}" MB/s)" 'BEGIN { printf "%.2f", v / 1e3 }') GB/s of fp32 | |"
  done
  for way in "Save saving a checkpoint|a synced write of as many bytes" "Restore restoring it|reading as many bytes"; do
    what=${way#* }
    echo "| ${what%%|*} | $(median checkpoint "${way%% *}" MB/s_ours) MB/s | $(median checkpoint "${way%% *}" of_plain) of ${what#*|} |"
  done
  for level in metrics semantic module op kernel; do
    echo "| a step of gpt traced at level $level | $(median tracing Tracing "$level/untraced") | of an untraced one |"
  done
} >"$dir/table"
cat "$dir/table"

# put NAME: the file of that name between the page's markers of the name.
put() {
  awk -v table="$dir/$1" -v begin="<!-- begin $1 -->" -v end="<!-- end $1 -->" '
    $0 == begin { print; while ((getline line < table) > 0) print line; skip = 1; next }
    $0 == end { skip = 0 }
    !skip { print }' docs/cost.md >"$dir/page"
  cp "$dir/page" docs/cost.md
}
mv "$dir/table" "$dir/bench"
put bench
put tax
