#!/usr/bin/env bash
# Runs the commands of README.md and docs/ that are shown without their output, each page's in a folder of its own, and stops
# at the first that fails. Those shown with their output are in the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/firstbit" ./cmd/firstbit

ran=0
for page in README.md docs/*.md; do
  mkdir "$dir/page"
  while IFS= read -r command; do
    printf '%s: %s\n' "$page" "$command"
    if ! (cd "$dir/page" && eval "${command/go run .\/cmd\/firstbit/\"$dir/firstbit\"}" </dev/null >"$dir/out" 2>&1); then
      tail -20 "$dir/out"
      exit 1
    fi
    ran=$((ran + 1))
  done < <(sed -n 's/^    \(go run \.\/cmd\/firstbit .*\)$/\1/p' "$root/$page")
  rm -rf "$dir/page"
done
[ "$ran" -gt 0 ] || { echo "no page has a command"; exit 1; }
echo "$ran commands"
