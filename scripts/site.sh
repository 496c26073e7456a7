#!/usr/bin/env bash
# Builds the playground into site/dist: static files for any server. With --test it is tested there too, in headless Chromium and in Node, against
# the command; SHOTS=DIR leaves screenshots.
#
# Inlining makes a program a fifth larger; here only the packages have it in which sums and digests are computed. Zstd packs it a tenth smaller than
# gzip, and unpacking takes 8 KB of JavaScript.
set -euo pipefail
cd "$(dirname "$0")/.."

most=2500000 # bytes of the compressed program
dist=site/dist
mkdir -p "$dist"
hot=(kernel lowp libm reduce device)
flags=(-gcflags=all=-l)
for package in "${hot[@]}"; do flags+=("-gcflags=firstbit/$package="); done
for package in github.com/zeebo/xxh3 encoding/binary math math/bits sync/atomic internal/runtime/atomic; do flags+=("-gcflags=$package="); done
GOOS=js GOARCH=wasm go build -trimpath "${flags[@]}" -ldflags='-s -w' -o "$dist/firstbit.wasm" ./site
go run ./scripts/pack "$dist/firstbit.wasm" "$dist/firstbit.wasm.zst"
rm "$dist/firstbit.wasm"
size=$(wc -c <"$dist/firstbit.wasm.zst")
echo "site/dist/firstbit.wasm.zst: $size bytes"
[ "$size" -le "$most" ] || { echo "the program is larger than $most bytes"; exit 1; }

cp "$(go env GOROOT)/lib/wasm/wasm_exec.js" site/index.html site/play.js site/play.css site/worker.js site/fzstd.js site/fzstd.LICENSE site/fs.js "$dist"
cp report/assets/{draw.js,page.css,uplot.js,uplot.css,uplot.LICENSE} "$dist"
go run ./cmd/firstbit list --json >"$dist/catalog.json"

if [ "${1:-}" = --test ]; then
  . scripts/chromium.sh
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  go build -o "$dir/firstbit" ./cmd/firstbit
  node scripts/site.js "$dist" "$dir/firstbit"
fi
