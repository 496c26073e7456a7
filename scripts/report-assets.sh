#!/usr/bin/env bash
# Takes what the pages embed of others from the npm registry, by name and version, as it is, with its licence: the charting library of the
# report, and what unpacks the playground's program.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
take() { # take PACKAGE VERSION: its files into $dir/PACKAGE
  npm pack --silent --pack-destination "$dir" "$1@$2" >/dev/null
  mkdir "$dir/$1"
  tar -xzf "$dir/$1-$2.tgz" -C "$dir/$1" --strip-components=1
}

take uplot 1.6.32
cp "$dir/uplot/dist/uPlot.iife.min.js" report/assets/uplot.js
cp "$dir/uplot/dist/uPlot.min.css" report/assets/uplot.css
cp "$dir/uplot/LICENSE" report/assets/uplot.LICENSE

take fzstd 0.1.1
cp "$dir/fzstd/umd/index.js" site/fzstd.js
cp "$dir/fzstd/LICENSE" site/fzstd.LICENSE
