#!/usr/bin/env bash
# The same bits everywhere. Natively: in another process, at other GOMAXPROCS, without AVX2, traced. On arm64, riscv64,
# ppc64le and s390x (big-endian) under qemu-user and as wasm under Node: the goldens, metrics, every byte of traces down to
# kernels and of checkpoints, and runs that continue from another architecture's checkpoint, NaNs among them all. Then packs of
# fixtures, and what is built and vetted for macOS and Windows.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export CGO_ENABLED=0

declare -A qemu=([arm64]=aarch64 [riscv64]=riscv64 [ppc64le]=ppc64le [s390x]=s390x)
others=(s390x ppc64le riscv64 arm64 wasm)

missing() { for q in "${qemu[@]}"; do command -v "qemu-$q" >/dev/null || return 0; done; return 1; }
if missing; then
  echo "installing qemu-user"
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq qemu-user >/dev/null
fi

build() { # build ARCH: the program and the tests with the goldens
  local os=linux arch=$1
  case $1 in
    native) os=$(go env GOOS) arch=$(go env GOARCH) ;;
    wasm) os=js ;;
  esac
  GOOS=$os GOARCH=$arch go build -o "$dir/firstbit.$1" ./cmd/firstbit
  GOOS=$os GOARCH=$arch go test -c -o "$dir/tests.$1" ./run
}

on() { # on ARCH PROGRAM ARGUMENTS…
  local arch=$1 program=$dir/$2.$1
  shift 2
  case $arch in
    native) "$program" "$@" ;;
    wasm) node --stack-size=8192 "$(go env GOROOT)/lib/wasm/wasm_exec_node.js" "$program" "$@" ;;
    *) "qemu-${qemu[$arch]}" "$program" "$@" ;;
  esac
}

# What a job finds wrong is a line with DIFFERENT; those lines decide at the end.
same() { # same NAME WANT GOT: two files, or two folders with all their files
  if ! [ -s "$2" ]; then
    echo "  DIFFERENT: $1: there is nothing to compare with"
  elif diff -r -x host.json "$2" "$3" >"$3.diff" 2>&1; then
    echo "  same bytes: $1"
  else
    echo "  DIFFERENT: $1: $(head -c 300 "$3.diff" | tr '\n' ' ')"
  fi
}
differ() { # differ NAME A B: the control, two that must not be the same
  if diff -r -x host.json "$2" "$3" >/dev/null 2>&1; then echo "  DIFFERENT: the comparison cannot fail: $1"; fi
}

# Natively, by tiny, whose products fill vector tiles.
tiny=("--precision fp32"
  "--precision bf16 --recipe fast --schedule 7 --set micro=2 --set model.dropout=0.1 --set model.recompute=true"
  "--precision fp64 --set model.moe.router=softmax_topk --set model.moe.latent=16 --set model.mtp.depths=2 --set model.mtp.repeated=true"
  "--recipe canonical --set model.moe.aux=sequence --layout dp=4 --set batch=1 --precision bf16"
  "--layout dp=8 --set batch=1 --recipe fast --schedule 3"
  "--recipe canonical --set model.moe.aux=sequence --layout dp=2,tp=2,pp=2,ep=2 --set batch=1 --set micro=2 --set model.dropout=0.1 --precision bf16"
  "--layout cp=2,tp=2 --precision nvfp4"
  "--layout pp=2,vpp=2 --set micro=2 --set cluster.overlap=true --precision mxfp8"
  "--precision fp8 --set quant.scaling=delayed --layout ep=2"
  "--set optim.lr=1e30 --set optim.min_lr=0"
  "--set optim.lr=1e30 --set optim.min_lr=0 --precision nvfp4 --layout tp=2")

ended() { echo "  DIFFERENT: $1 failed: $(tail -c 300 "$2" | tr '\n' ' ')"; } # ended NAME OUTPUT

natively() { # natively NUMBER: one of the runs above
  local out=$dir/tiny$1 args=${tiny[$1]}
  mkdir "$out"
  local command="train --preset tiny --steps 3 --json $args"
  echo "natively: firstbit $command"
  on native firstbit $command >"$out/want" 2>&1 || ended "$args" "$out/want"
  on native firstbit $command >"$out/again" 2>&1
  same "another process" "$out/want" "$out/again"
  for p in 1 4; do
    GOMAXPROCS=$p on native firstbit $command >"$out/procs$p" 2>&1
    same "GOMAXPROCS=$p" "$out/want" "$out/procs$p"
  done
  on native firstbit $command --trace "$out/trace" --level kernel >"$out/traced" 2>&1
  same "traced" "$out/want" "$out/traced"
  GODEBUG=cpu.avx2=off on native firstbit $command --trace "$out/plain" --level kernel >"$out/without" 2>&1
  same "without AVX2" "$out/want" "$out/without"
  same "without AVX2, every record" "$out/trace" "$out/plain"
  on native firstbit $command --seed 2 >"$out/other" 2>&1
  differ "another seed gives the same output" "$out/want" "$out/other"
  rm -rf "$out"
}

# Everywhere, by pico.
pico=("--precision fp32 --layout dp=2,cp=2,ep=2"
  "--precision bf16 --layout tp=2,pp=2 --set micro=2 --recipe fast --schedule 7 --set model.dropout=0.1"
  "--precision nvfp4 --layout tp=2,pp=2 --set micro=2"
  "--precision mxfp8 --layout pp=2,vpp=2 --set micro=2 --set model.pattern=M*E|M|*E|- --set cluster.overlap=true"
  "--precision fp8 --set quant.scaling=delayed --layout dp=2,tp=2,ep=2,etp=2"
  "--precision bf16 --recipe canonical --set model.moe.aux=sequence --layout dp=2,tp=2 --set model.recompute=true"
  "--precision fp64 --set model.moe.router=softmax_topk --set model.moe.latent=8 --set optim.lr=1e30 --set optim.min_lr=0"
  "--precision nvfp4 --layout dp=2 --set optim.lr=1e30 --set optim.min_lr=0")

reference() { # the native side of them: a run of two steps, and its second step from the checkpoint after the first
  for i in "${!pico[@]}"; do
    local out=$dir/native/$i
    mkdir -p "$out"
    ran native "$i" "$out"
    resumed native "$i" "$out/saved" "$out"
  done
  on native firstbit train --preset pico --set model.ssm.groups=2 --steps 2 --json ${pico[0]} --seed 2 --trace "$dir/other" --level kernel >/dev/null
}
ran() { # ran ARCH NUMBER FOLDER
  on "$1" firstbit train --preset pico --set model.ssm.groups=2 --steps 2 --json ${pico[$2]} --trace "$3/trace" --level kernel --save "$3/saved" --save-every 1 >"$3/metrics" 2>&1 || ended "$1: ${pico[$2]}" "$3/metrics"
}
resumed() { # resumed ARCH NUMBER CHECKPOINTS FOLDER
  on "$1" firstbit train --preset pico --set model.ssm.groups=2 --steps 2 --json ${pico[$2]} --resume "$3/step000001" >"$4/resumed" 2>&1 || ended "$1, resumed: ${pico[$2]}" "$4/resumed"
}

elsewhere() { # elsewhere ARCH
  echo "$1"
  golden "$1" "pico, three steps" -test.run 'Golden/pico'
  if [ "$1" = wasm ]; then # it is compiled, not interpreted
    golden "$1" "all, one step" -test.run 'Golden$' -steps 1
  else
    golden "$1" "all but those of small, one step" -test.run 'Golden$' -test.skip 'Golden/small' -steps 1
  fi
  for i in "${!pico[@]}"; do
    local out=$dir/$1/$i want=$dir/native/$i
    mkdir -p "$out"
    echo "$1: firstbit train --preset pico --steps 2 ${pico[$i]}"
    ran "$1" "$i" "$out"
    same "metrics" "$want/metrics" "$out/metrics"
    same "a trace of every kernel" "$want/trace" "$out/trace"
    same "checkpoints" "$want/saved" "$out/saved"
    resumed "$1" "$i" "$want/saved" "$out"
    same "native's checkpoint continued on $1" "$want/resumed" "$out/resumed"
    mkdir "$out/back"
    resumed native "$i" "$out/saved" "$out/back"
    same "$1's checkpoint continued natively" "$want/resumed" "$out/back/resumed"
  done
  differ "another seed gives the same trace" "$dir/other" "$dir/$1/0/trace"
  if [ "$1" = s390x ] || [ "$1" = arm64 ]; then
    on "$1" firstbit fixtures "$dir/$1/packs" --cause bit-flip >/dev/null
    same "a pack of fixtures" "$dir/packs1/bit-flip" "$dir/$1/packs/bit-flip"
  fi
}

golden() { # golden ARCH WHAT ARGUMENTS…: a run of the tests where their files are
  if (cd "$root/run" && on "$1" tests "${@:3}") >"$dir/golden.$1" 2>&1; then
    echo "  same goldens: $2"
  else
    echo "  DIFFERENT: goldens: $2: $(grep -m1 -A12 -- '--- FAIL' "$dir/golden.$1" | head -c 600 || tail -3 "$dir/golden.$1")"
  fi
}

control() { # goldens with one digit changed are not those of this program
  mkdir -p "$dir/changed/testdata"
  sed '0,/ "40/s// "41/' "$root/run/testdata/golden.json" >"$dir/changed/testdata/golden.json"
  if (cd "$dir/changed" && on native tests -test.run 'Golden$') >/dev/null 2>&1; then
    echo "  DIFFERENT: the comparison cannot fail: changed goldens pass"
  fi
}

packs() { # packs NUMBER COMMAND…: the packs of some causes, one of each kind of root
  "${@:2}" fixtures "$dir/packs$1" --cause bit-flip --cause dprob-atomics --cause bucket-size --cause scale-rebuild --cause rng-dedupe >/dev/null
}

foreign() { # foreign OS ARCH: what can only be built and vetted here
  if GOOS=$1 GOARCH=$2 go build -o /dev/null ./cmd/firstbit && GOOS=$1 GOARCH=$2 go vet ./...; then
    echo "$1 on $2: built and vetted"
  else
    echo "  DIFFERENT: $1 on $2 is not built"
  fi
}

# As many jobs at a time as there are processors, each with a log of its own, shown when it ends.
job() { # job NAME COMMAND…
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
  {
    { "${@:2}" || echo "  DIFFERENT: $1 ended with $?"; } >"$dir/log.$1" 2>&1
    flock "$dir/firstbit.native" cat "$dir/log.$1"
  } &
}

build native
job packs1 packs 1 env GOMAXPROCS=1 "$dir/firstbit.native"
job reference reference
for arch in "${others[@]}"; do build "$arch"; done
wait
for arch in "${others[@]}"; do job "$arch" elsewhere "$arch"; done
job packs4 packs 4 env GOMAXPROCS=4 "$dir/firstbit.native"
job control control
for i in "${!tiny[@]}"; do job "tiny$i" natively "$i"; done
for target in darwin/arm64 darwin/amd64 windows/amd64 windows/arm64; do job "${target/\//-}" foreign "${target%/*}" "${target#*/}"; done
wait
{
  echo "firstbit fixtures"
  same "GOMAXPROCS=1 and 4, $(find "$dir/packs1" -type f | wc -l) files" "$dir/packs1" "$dir/packs4"
  differ "two runs that differ are the same files" "$dir/packs1/bit-flip/a" "$dir/packs1/bit-flip/b"
} | tee "$dir/log.end"
! grep -q DIFFERENT "$dir"/log.*
