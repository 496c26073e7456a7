#!/usr/bin/env bash
# Trains the hybrid, an attention-only and a Mamba-only model of as many parameters, three seeds
# each, and writes the table of their final losses between the markers of docs/model.md.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/firstbit" ./cmd/firstbit

run() { # NAME PATTERN HIDDEN
  for seed in 1 2 3; do
    "$dir/firstbit" train --preset small --steps 300 --seed "$seed" --set "model.pattern=$2" --set "model.hidden=$3" --json >"$dir/$1.$seed.json"
    echo "$1, seed $seed" >&2
  done
}
run hybrid 'M*E-M*E-' 256
run attention '*-*-*-*-' 744
run mamba 'M-M-M-M-' 604

node scripts/learn.js "$dir" >"$dir/table"
cat "$dir/table"
awk -v table="$dir/table" '
  /<!-- begin learning -->/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
  /<!-- end learning -->/ { skip = 0 }
  !skip { print }' docs/model.md >"$dir/page"
cp "$dir/page" docs/model.md
