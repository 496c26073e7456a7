#!/usr/bin/env bash
# Trains preset small for 300 steps in every precision, and writes the table of their losses beside fp32's between the
# the markers of docs/precision.md and their curves into docs/precision.svg. Exits 1 if one ends farther from fp32 than it may: bf16 and fp16 1 %,
# fp8 and mxfp8 3 %, nvfp4 5 %. The virtual environment for the plot lies outside the repository and is kept.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${PRECISION_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/firstbit-precision}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check matplotlib==3.11.2

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/firstbit" ./cmd/firstbit
for precision in fp32 bf16 fp16 fp8 mxfp8 nvfp4; do
  "$dir/firstbit" train --preset small --steps 300 --precision "$precision" --json >"$dir/$precision.json"
  echo "$precision" >&2
done

mkdir -p docs
status=0
MPLCONFIGDIR="$dir" "$venv/bin/python" scripts/precision.py "$dir" docs/precision.svg >"$dir/table" || status=$?
cat "$dir/table"
awk -v table="$dir/table" '
  /<!-- begin precision -->/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
  /<!-- end precision -->/ { skip = 0 }
  !skip { print }' docs/precision.md >"$dir/page"
cp "$dir/page" docs/precision.md
exit $status
