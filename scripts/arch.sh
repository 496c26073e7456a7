#!/usr/bin/env bash
# The same bits everywhere: one command natively, at other GOMAXPROCS, with a trace, on arm64
# under qemu-user, and as wasm under Node.
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
for args in "--precision fp32" "--precision bf16 --recipe fast --schedule 7 --set micro=2" "--precision fp64 --set model.moe.router=softmax"; do
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
exit $status
