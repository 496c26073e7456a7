#!/usr/bin/env bash
# Runs the sweeps of `route` and writes their tables between the markers of docs/routes.md; with --check it says whether the page has
# what they print now, and changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/firstbit" ./cmd/firstbit

for sweep in bits precisions experts layers steps; do
  printf '\n```text\n$ go run ./cmd/firstbit route --sweep %s\n' "$sweep"
  "$dir/firstbit" route --sweep "$sweep"
  printf '```\n'
done >"$dir/tables"
awk -v tables="$dir/tables" '
  /<!-- begin routes -->/ { print; while ((getline line < tables) > 0) print line; skip = 1; next }
  /<!-- end routes -->/ { print ""; skip = 0 }
  !skip { print }' docs/routes.md >"$dir/page"
if [ "${1:-}" = --check ]; then
  diff -u docs/routes.md "$dir/page"
else
  cp "$dir/page" docs/routes.md
fi
