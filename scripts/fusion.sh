#!/usr/bin/env bash
# Looks for fused multiply-add instructions in what the compiler and the assembler make of this
# module, on every architecture that has them. A product that meets a sum must be rounded first; an explicit
# conversion stops the fusion, and only the instructions show that it did. What a plan asks to fuse stands in assembly, in the functions
# of asked, and nowhere else.
set -euo pipefail
cd "$(dirname "$0")/.."

# The mnemonics of Go's assemblers: FMADDD FNMSUBS… on arm64 and riscv64, FMADD FMSUBS… on ppc64le
# and s390x, FMADDF… on loong64, VFMADD231SD VFMSUBADD213PS… on amd64; vectors are WFMADB,
# XSMADDADP, VFMLA, VFMACC and their like. Assembly that spells instructions as bytes could hide one.
mnemonics='V?FN?M(ADD|SUB)[A-Z0-9]*|[VW]FN?M[AS][DSX]?B|X[SV]N?M(ADD|SUB)[AM][A-Z]P|VFML[AS]|VFN?M(ACC|SAC|ADD|SUB)(VV|VF)|BYTE|WORD|LONG|QUAD'

# fused prints the functions of a listing that hold such an instruction, with file and line.
# An instruction's fields are its offset with its position, its mnemonic, and its operands.
fused() {
  awk -F '\t' -v mnemonics="^($mnemonics)\$" '
    / STEXT / { split($0, name, " STEXT ") }
    /^\t0x/ && $3 ~ mnemonics { match($2, /\(.*\)/); print name[1], $3, substr($2, RSTART + 1, RLENGTH - 2) }'
}

# list GOARCH GOAMD64 prints the instructions of every package of the module. A generic
# function is compiled where it is instantiated, a main package among them. The go command
# replays the listing of what it finds in its cache.
list() {
  GOARCH=$1 GOAMD64=$2 CGO_ENABLED=0 go build -gcflags='firstbit/...=-S' -asmflags='firstbit/...=-S' ./... 2>&1
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The negative control: of these functions all that say so must be seen to fuse, at either
# width, across statements, inlined, generic, in assembly, and none that converts.
mkdir -p "$dir/control/generic" "$dir/control/assembly" "$dir/control/main"
cat >"$dir/control/go.mod" <<'GO'
module firstbit

go 1.26
GO
cat >"$dir/control/generic/generic.go" <<'GO'
package generic

//go:noinline
func Fused[T float32 | float64](x, y, z T) T { return x*y + z }

//go:noinline
func Converted[T float32 | float64](x, y, z T) T { return T(x*y) + z }

func Product(x, y float64) float64 { return x * y }
GO
cat >"$dir/control/assembly/fused_amd64.go" <<'GO'
package assembly

func Fused(x *[8]float32)
func Spelt()
func Apart(x *[8]float32)
GO
cat >"$dir/control/assembly/fused_amd64.s" <<'ASM'
#define MULADD(X, Y, Z) VFMADD231PS X, Y, Z
TEXT ·Fused(SB), 4, $0-8
	MULADD(Y0, Y1, Y2)
	RET
TEXT ·Spelt(SB), 4, $0
	BYTE $0x90
	RET
TEXT ·Apart(SB), 4, $0-8
	VMULPS Y0, Y1, Y2
	VADDPS Y2, Y3, Y3
	RET
ASM
cat >"$dir/control/main/main.go" <<'GO'
package main

import "firstbit/generic"

//go:noinline
func fusedSum(x, y, z float64) float64 { return x*y + z }

//go:noinline
func fusedStatements(x, y, z float32) float32 { p := x * y; z += p; return z }

//go:noinline
func fusedInlined(x, y, z float64) float64 { return generic.Product(x, y) + z }

//go:noinline
func fusedMemory(s []float32, x, y, z float32) { s[0] = x * y; s[1] = s[0] + z }

//go:noinline
func converted(x, y, z float32) float32 { return float32(x*y) + z }

func main() {
	s := make([]float32, 2)
	fusedMemory(s, 1, 2, 3)
	println(fusedSum(1, 2, 3), fusedStatements(1, 2, 3), fusedInlined(1, 2, 3), converted(1, 2, 3))
	println(generic.Fused[float32](1, 2, 3), generic.Fused[float64](1, 2, 3), generic.Converted[float32](1, 2, 3), generic.Converted[float64](1, 2, 3))
}
GO
must='generic.Fused[go.shape.float32]
generic.Fused[go.shape.float64]
fusedInlined
fusedMemory
fusedStatements
fusedSum'

asked_amd64='firstbit/kernel.addRows8FMA
firstbit/kernel.tile6x16FMA'

must_amd64='assembly.Fused
assembly.Spelt'

status=0
for target in arm64/v1 riscv64/v1 ppc64le/v1 s390x/v1 loong64/v1 amd64/v3; do
  arch=${target%/*} level=${target#*/}
  want=$must
  [ "$arch" != amd64 ] || want+=$'\n'$must_amd64
  seen=$(cd "$dir/control" && list "$arch" "$level" | fused | sed 's/ .*//; s/^main\.//; s/^firstbit\///' | LC_ALL=C sort)
  if [ "$seen" != "$(LC_ALL=C sort <<<"$want")" ]; then
    printf '%s: the control must show exactly\n%s\nbut shows\n%s\n' "$target" "$want" "$seen"
    exit 1
  fi
  list "$arch" "$level" >"$dir/listing" || { tail -5 "$dir/listing"; exit 1; }
  instructions=$(grep -cE '^[[:space:]]+0x' "$dir/listing" || true)
  fused <"$dir/listing" >"$dir/all"
  asked=
  [ "$arch" != amd64 ] || asked=$asked_amd64
  if [ "$(awk '{ print $1 }' "$dir/all" | LC_ALL=C sort -u | grep -xF "${asked:-none}" || true)" != "$asked" ]; then
    printf '%s: these must fuse:\n%s\n' "$target" "$asked"
    status=1
  fi
  awk -v asked="$asked" 'BEGIN { split(asked, name, "\n"); for (i in name) is[name[i]] } !($1 in is)' "$dir/all" >"$dir/found"
  echo "$target: $(wc -l <"$dir/found") fused instructions among $instructions; the control's $(wc -l <<<"$want") were seen"
  if [ -s "$dir/found" ] || [ "$instructions" -lt 10000 ]; then
    head -20 "$dir/found"
    status=1
  fi
done
exit $status
