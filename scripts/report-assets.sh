#!/usr/bin/env bash
# Takes the charting library of the report's page from the npm registry, by name and version: report/assets holds it as it is, with its licence.
set -euo pipefail
cd "$(dirname "$0")/.."

version=1.6.32
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
npm pack --silent --pack-destination "$dir" "uplot@$version" >/dev/null
tar -xzf "$dir/uplot-$version.tgz" -C "$dir"
cp "$dir/package/dist/uPlot.iife.min.js" report/assets/uplot.js
cp "$dir/package/dist/uPlot.min.css" report/assets/uplot.css
cp "$dir/package/LICENSE" report/assets/uplot.LICENSE
