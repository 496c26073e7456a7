#!/usr/bin/env bash
# The same bits everywhere: commands natively, in other processes, at other GOMAXPROCS, without AVX2 and traced; the goldens, a trace
# and a checkpoint on arm64, riscv64, ppc64le and s390x (big-endian) under qemu-user, and as wasm under Node; the packs of
# fixtures. For macOS and Windows the program is built and vetted.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# emulator GOARCH: the program that runs binaries of it.
emulator() {
  local name=$1
  [ "$name" = arm64 ] && name=aarch64
  command -v "qemu-$name" || command -v "qemu-$name-static"
}
emulated="arm64 riscv64 ppc64le s390x"
for arch in $emulated; do
  if ! emulator "$arch" >/dev/null; then
    echo "installing qemu-user"
    sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq qemu-user >/dev/null
    break
  fi
done

export CGO_ENABLED=0
go build -o "$dir/native" ./cmd/firstbit

status=0
failed() {
  echo "  $*"
  status=1
}
same() { # same NAME WANT GOT
  if cmp -s "$2" "$3"; then
    echo "  same bits: $1"
  else
    failed "DIFFERENT BITS: $1"
  fi
}

# beside NAME COMMAND…: the command runs with others of its kind, as many at once as there are processors, in a folder of its own, $own;
# joined waits for all of them and shows what each said.
names=()
beside() {
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do sleep 0.2; done
  own=$dir/own/$1
  mkdir -p "$own"
  names+=("$own")
  (
    "${@:2}"
    [ "$status" -eq 0 ] && touch "$own/passed"
  ) >"$own/said" 2>&1 &
}
joined() {
  wait
  for own in "${names[@]}"; do
    cat "$own/said"
    [ -f "$own/passed" ] || failed "FAILED: $(basename "$own")"
  done
  names=()
}

i=0
for args in "--precision fp32" "--precision bf16 --recipe fast --schedule 7 --set micro=2 --set model.dropout=0.1 --set model.recompute=true" \
  "--precision fp64 --set model.moe.router=softmax_topk --set model.moe.latent=16 --set model.mtp.depths=2 --set model.mtp.repeated=true" \
  "--recipe canonical --set model.moe.aux=sequence --layout dp=4 --set batch=1 --precision bf16" \
  "--layout dp=8 --set batch=1 --recipe fast --schedule 3" \
  "--recipe canonical --set model.moe.aux=sequence --layout dp=2,tp=2,pp=2,ep=2 --set batch=1 --set micro=2 --set model.dropout=0.1 --precision bf16" \
  "--layout cp=2,tp=2 --precision nvfp4" "--layout pp=2,vpp=2 --set micro=2 --set cluster.overlap=true --precision mxfp8" \
  "--precision fp8 --set quant.scaling=delayed --layout ep=2" "--precision bf16 --recipe fused --layout tp=2" "--precision bf16 --set optim.lr=1e30 --set optim.min_lr=0"; do
  i=$((i + 1))
  command="train --preset tiny --steps 3 --json $args"
  echo "firstbit $command"
  "$dir/native" $command >"$dir/want" 2>/dev/null
  "$dir/native" $command >"$dir/got" 2>/dev/null
  same "another process" "$dir/want" "$dir/got"
  for p in 1 4; do
    GOMAXPROCS=$p "$dir/native" $command >"$dir/got" 2>/dev/null
    same "GOMAXPROCS=$p" "$dir/want" "$dir/got"
  done
  GODEBUG=cpu.avx2=off "$dir/native" $command >"$dir/got" 2>/dev/null
  same "without AVX2" "$dir/want" "$dir/got"
  "$dir/native" $command --trace "$dir/trace$i" --level kernel >"$dir/got" 2>/dev/null
  same "traced at kernel level" "$dir/want" "$dir/got"
  "$dir/native" $command --seed 2 >"$dir/got" 2>/dev/null
  ! cmp -s "$dir/want" "$dir/got" || failed "the comparison cannot fail: another seed gives the same output"
done

# What runs on every architecture: RUN is the emulator or Node with what it needs, PROGRAM and TESTS are built for it.
golden='Golden$/pico'
small="train --preset pico --layout tp=2,pp=2 --set model.ssm.groups=2 --set micro=2 --precision nvfp4 --json"
"$dir/native" $small --steps 2 --trace "$dir/small" --level kernel >"$dir/small2"
"$dir/native" $small --steps 4 --save "$dir/saved" --save-every 2 >"$dir/small4"
tail_of() { node -e 'console.log(JSON.stringify(JSON.parse(require("fs").readFileSync(process.argv[1])).steps.slice(-2)))' "$1"; }
tail_of "$dir/small4" >"$dir/want4"

elsewhere() { # elsewhere NAME RUN… : with $dir/NAME and $dir/NAME.test
  local name=$1
  shift
  echo "$name"
  if (cd run && "$@" "$dir/$name.test" -test.run "$golden" -steps 2 >"$own/out" 2>&1) && grep -q '^PASS' "$own/out"; then
    echo "  same bits: the goldens"
  else
    tail -20 "$own/out"
    failed "DIFFERENT BITS: the goldens"
  fi
  "$@" "$dir/$name" $small --steps 2 --trace "$own/trace" --level kernel >"$own/got"
  same "metrics" "$dir/small2" "$own/got"
  if diff -r -x host.json "$dir/small" "$own/trace" >"$own/out"; then
    echo "  same bytes: a trace at kernel level"
  else
    head -c 500 "$own/out"
    failed "DIFFERENT BYTES: a trace at kernel level"
  fi
  "$@" "$dir/$name" $small --steps 4 --resume "$dir/saved/step000002" --save "$own/saved" >"$own/got"
  tail_of "$own/got" >"$own/got4"
  same "a checkpoint continued here" "$dir/want4" "$own/got4"
  "$@" "$dir/$name" $small --steps 2 --save "$own/from" >/dev/null
  "$dir/native" $small --steps 4 --resume "$own/from" >"$own/got" 2>/dev/null
  tail_of "$own/got" >"$own/got4"
  same "a checkpoint of here continued natively" "$dir/want4" "$own/got4"
}

for arch in $emulated; do
  GOARCH=$arch go build -o "$dir/$arch" ./cmd/firstbit
  GOARCH=$arch go test -c -o "$dir/$arch.test" ./run
done
GOOS=js GOARCH=wasm go build -o "$dir/wasm" ./cmd/firstbit
GOOS=js GOARCH=wasm go test -c -o "$dir/wasm.test" ./run
for arch in $emulated; do
  beside "$arch" elsewhere "$arch" "$(emulator "$arch")"
done
beside wasm elsewhere wasm node --stack-size=8192 "$(go env GOROOT)/lib/wasm/wasm_exec_node.js"
joined

# The checks above can fail: a run of another seed has another trace, and other bits after the checkpoint.
"$dir/native" $small --seed 2 --steps 2 --trace "$dir/other" --level kernel >"$dir/got"
! cmp -s "$dir/small2" "$dir/got" || failed "the comparison cannot fail: another seed has the same metrics"
! diff -r -x host.json "$dir/small" "$dir/other" >/dev/null || failed "the comparison cannot fail: another seed has the same trace"

# A trace with everything in it, big-endian too.
for arch in arm64 s390x; do
  command="train --preset tiny --steps 1 --precision bf16 --recipe fast --schedule 7 --set model.dropout=0.1 --level kernel"
  "$dir/native" $command --trace "$dir/tiny-$arch" >/dev/null
  "$(emulator $arch)" "$dir/$arch" $command --trace "$dir/tiny-$arch-there" >/dev/null
  "$dir/native" diff "$dir/tiny-$arch" "$dir/tiny-$arch-there" | sed "s/^/  $arch trace: /" || status=1
done

echo "firstbit fixtures"
# Emulation is slow: of each kind of number and of choice one.
some=()
for cause in dprob-atomics ring-permutation bit-flip topk-ties gpu-generation fma-contraction mx-double-quant scales-only loss-scale normaliser-local rng-omission; do
  some+=(--cause "$cause")
done
beside arm64-packs "$(emulator arm64)" "$dir/arm64" fixtures "$dir/there" "${some[@]}"
beside packs1 env GOMAXPROCS=1 "$dir/native" fixtures "$dir/packs1"
beside packs4 env GOMAXPROCS=4 "$dir/native" fixtures "$dir/packs4"
joined >"$dir/out"
[ "$status" -eq 0 ] || tail -20 "$dir/out"
for there in packs4 there; do
  for pack in "$dir/$there"/*/; do
    diff -r "$dir/packs1/$(basename "$pack")" "$pack"
  done >"$dir/got" 2>&1 || true
  if [ -s "$dir/got" ]; then
    head -c 1000 "$dir/got"
    failed "DIFFERENT BYTES: $there"
  else
    echo "  same bytes: $there, $(find "$dir/$there" -type f | wc -l) files"
  fi
done
if diff -rq "$dir/packs1/bit-flip/a" "$dir/packs1/bit-flip/b" >/dev/null; then
  failed "the comparison cannot fail: two runs that differ are the same files"
fi

for target in darwin/arm64 darwin/amd64 windows/amd64; do
  export GOOS=${target%/*} GOARCH=${target#*/}
  if go build -o /dev/null ./... && go vet ./...; then
    echo "built and vetted: $target"
  else
    failed "not built for $target"
  fi
done
exit $status
