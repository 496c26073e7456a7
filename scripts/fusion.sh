#!/usr/bin/env bash
# Looks for fused multiply-add instructions in what the compiler makes of this module, on every
# architecture that has them. A product that meets a sum must be rounded first; an explicit
# conversion stops the fusion, and only the instructions show that it did.
set -euo pipefail
cd "$(dirname "$0")/.."

# Mnemonics of Go's assemblers: arm64 FMADD… FNMSUB…, riscv64 FMADDS…, ppc64le FMADD FMSUB…,
# s390x FMADD FMSUB, amd64 VFMADD231SS….
fused='[[:space:]](V?FN?M(ADD|SUB)[A-Z0-9]*|WFN?M[AS][DSX]B)[[:space:]]'

listing() { # listing GOARCH GOAMD64 PACKAGES…
  local arch=$1 level=$2
  shift 2
  # Only this module's packages are listed; the go command replays a cached listing.
  GOARCH=$arch GOAMD64=$level CGO_ENABLED=0 go build -gcflags='firstbit/...=-S' -o /dev/null "$@" 2>&1
}

count() { grep -cE "$fused" || true; }

# The negative control: this program fuses, and must be seen to.
control=$(mktemp -d)
trap 'rm -rf "$control"' EXIT
mkdir -p "$control/p"
cat >"$control/go.mod" <<'M'
module firstbit
go 1.26
M
cat >"$control/p/p.go" <<'P'
package p

func Fused(x, y, z float64) float64 { return x*y + z }
P

status=0
for target in arm64/v1 riscv64/v1 ppc64le/v1 s390x/v1 amd64/v3; do
  arch=${target%/*} level=${target#*/}
  seen=$(cd "$control" && listing "$arch" "$level" ./p | count)
  if [ "$seen" -eq 0 ]; then
    echo "$target: the control's fused instruction was not seen: the search is broken"
    exit 1
  fi
  listing "$arch" "$level" ./cmd/firstbit >"$control/listing" || { tail -5 "$control/listing"; exit 1; }
  instructions=$(grep -cE '^[[:space:]]+0x' "$control/listing" || true)
  found=$(count <"$control/listing")
  echo "$target: $found fused instructions among $instructions"
  if [ "$found" -ne 0 ] || [ "$instructions" -lt 10000 ]; then
    grep -E "$fused" "$control/listing" | head -5
    status=1
  fi
done
exit $status
