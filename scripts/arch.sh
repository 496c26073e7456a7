#!/usr/bin/env bash
# The same bits everywhere: one command natively, at other GOMAXPROCS, with a trace, on arm64
# under qemu-user, and as wasm under Node; and the packs of fixtures, all their files.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

if ! command -v qemu-aarch64 >/dev/null && ! command -v qemu-aarch64-static >/dev/null; then
  echo "installing qemu-user"
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq qemu-user >/dev/null
fi
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static)

export CGO_ENABLED=0
go build -o "$dir/native" ./cmd/firstbit
GOARCH=arm64 go build -o "$dir/arm64" ./cmd/firstbit
GOOS=js GOARCH=wasm go build -o "$dir/wasm" ./cmd/firstbit
wasm() { node --stack-size=8192 "$(go env GOROOT)/lib/wasm/wasm_exec_node.js" "$dir/wasm" "$@"; }

status=0
same() { # same NAME WANT GOT
  if cmp -s "$2" "$3"; then
    echo "  same bits: $1"
  else
    echo "  DIFFERENT BITS: $1"
    status=1
  fi
}

i=0
for args in "--precision fp32" "--precision bf16 --recipe fast --schedule 7 --set micro=2 --set model.dropout=0.1 --set model.recompute=true" \
  "--precision fp64 --set model.moe.router=softmax_topk --set model.moe.latent=16 --set model.mtp.depths=2 --set model.mtp.repeated=true" \
  "--recipe canonical --set model.moe.aux=sequence --layout dp=4 --set batch=1 --precision bf16" \
  "--layout dp=8 --set batch=1 --recipe fast --schedule 3" \
  "--recipe canonical --set model.moe.aux=sequence --layout dp=2,tp=2,pp=2,ep=2 --set batch=1 --set micro=2 --set model.dropout=0.1 --precision bf16" \
  "--layout cp=2,tp=2 --precision nvfp4" "--layout pp=2,vpp=2 --set micro=2 --set cluster.overlap=true --precision mxfp8" \
  "--precision fp8 --set quant.scaling=delayed --layout ep=2"; do
  i=$((i + 1))
  command="train --preset tiny --steps 3 --json $args"
  echo "firstbit $command"
  "$dir/native" $command >"$dir/want"
  "$dir/native" $command >"$dir/got"
  same "another process" "$dir/want" "$dir/got"
  for p in 1 4; do
    GOMAXPROCS=$p "$dir/native" $command >"$dir/got"
    same "GOMAXPROCS=$p" "$dir/want" "$dir/got"
  done
  GODEBUG=cpu.avx2=off "$dir/native" $command >"$dir/got"
  same "without AVX2" "$dir/want" "$dir/got"
  "$dir/native" $command --trace "$dir/trace$i" --level kernel >"$dir/got"
  same "traced at kernel level" "$dir/want" "$dir/got"
  "$qemu" "$dir/arm64" $command >"$dir/got"
  same "arm64" "$dir/want" "$dir/got"
  wasm $command >"$dir/got"
  same "wasm" "$dir/want" "$dir/got"
  # A whole trace too: every Call's digests.
  "$qemu" "$dir/arm64" $command --trace "$dir/arm$i" --level kernel >/dev/null
  "$dir/native" diff "$dir/trace$i" "$dir/arm$i" | sed 's/^/  arm64 trace: /' || status=1

  "$dir/native" $command --seed 2 >"$dir/got"
  if cmp -s "$dir/want" "$dir/got"; then
    echo "  the comparison cannot fail: another seed gives the same output"
    status=1
  fi
done

echo "firstbit fixtures"
packs() { # packs NAME COMMAND…: the same packs as the first ones
  "${@:2}" fixtures "$dir/packs" >/dev/null
  if [ ! -d "$dir/first" ]; then
    mv "$dir/packs" "$dir/first"
  elif diff -r "$dir/first" "$dir/packs" >"$dir/got"; then
    echo "  same bytes: $1, $(find "$dir/packs" -type f | wc -l) files"
  else
    head -c 1000 "$dir/got"
    echo "  DIFFERENT BYTES: $1"
    status=1
  fi
  rm -rf "$dir/packs"
}
packs "GOMAXPROCS=1" env GOMAXPROCS=1 "$dir/native"
packs "GOMAXPROCS=4" env GOMAXPROCS=4 "$dir/native"
packs "arm64" "$qemu" "$dir/arm64"
if diff -rq "$dir/first/bit-flip/a" "$dir/first/bit-flip/b" >/dev/null; then
  echo "  the comparison cannot fail: two runs that differ are the same files"
  status=1
fi
exit $status
