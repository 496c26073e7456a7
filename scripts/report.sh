#!/usr/bin/env bash
# Tests the page of `firstbit report` in headless Chromium: of two traces, of a pair that is localised, and of a cause. With SHOTS=DIR it
# leaves screenshots there, at three widths, light and dark.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. scripts/chromium.sh

go build -o "$dir/firstbit" ./cmd/firstbit
differ() { "$@" || [ $? -eq 1 ]; } # exit 1 says that the runs differ
firstbit=$dir/firstbit
pair="--layout dp=2,ep=2 --preset pico --steps 6 --precision bf16"
$firstbit train $pair --trace "$dir/a" >/dev/null
$firstbit train $pair --trace "$dir/b" --inject 'flip@layers.1.attn.wq step=3 rank=1 elem=77 bit=1' >/dev/null
differ $firstbit diff "$dir/a" "$dir/b" --json >"$dir/traces.diff.json"
differ $firstbit spread "$dir/a" "$dir/b" --json >"$dir/traces.spread.json"
differ $firstbit report "$dir/a" "$dir/b" -o "$dir/traces.html" >/dev/null
a="--preset pico --recipe fast --schedule 1" b="--preset pico --recipe fast --schedule 2"
differ $firstbit localize --a "$a" --b "$b" --json >"$dir/pair.diff.json"
differ $firstbit report --a "$a" --b "$b" -o "$dir/pair.html" >/dev/null
differ $firstbit reproduce dprob-atomics --json >"$dir/cause.reproduce.json"
differ $firstbit report --cause dprob-atomics -o "$dir/cause.html" >/dev/null
node scripts/report.js "$dir"
