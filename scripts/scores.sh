#!/usr/bin/env bash
# Makes the packs of all causes, runs the comparers of docs/comparers and `diff` over them, scores each, and writes the table between
# the markers of docs/fixtures.md; with --check it says whether the page has what comes out now, and changes nothing. With the folder of
# packs made before as an argument of its own it makes none.
set -euo pipefail
cd "$(dirname "$0")/.."

check= packs=
for word in "$@"; do
  case $word in --check) check=yes ;; *) packs=$word ;; esac
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/firstbit" ./cmd/firstbit
if [ -z "$packs" ]; then
  packs=$dir/packs
  "$dir/firstbit" fixtures "$packs" >/dev/null
fi

score() { # NAME: what stands in NAME.answers
  "$dir/firstbit" score "$packs" "$dir/$1.answers" --json >"$dir/$1.json" || [ $? -eq 1 ]
}
docs/comparers/diff.sh "$dir/firstbit" "$packs" >"$dir/diff.answers"
score diff
for order in execution key; do
  for hash in digest xor; do
    python3 docs/comparers/compare.py "$order" "$hash" "$packs" >"$dir/$order-$hash.answers"
    score "$order-$hash"
  done
done
node -e '
  const [dir] = process.argv.slice(1);
  const tools = [["diff", "`diff`"], ["execution-digest", "execution order, digest"], ["execution-xor", "execution order, XOR"], ["key-digest", "key order, digest"], ["key-xor", "key order, XOR"]];
  const scores = tools.map(([file]) => JSON.parse(require("fs").readFileSync(`${dir}/${file}.json`)));
  const line = cells => console.log("| " + cells.join(" | ") + " |");
  line(["pack", ...tools.map(t => t[1])]);
  line(["---", ...tools.map(() => "---")]);
  const percent = x => (100 * x).toFixed(1) + " %";
  line(["**precision**", ...scores.map(s => percent(s.precision))]);
  line(["**recall**", ...scores.map(s => percent(s.recall))]);
  scores[0].entries.forEach((e, i) => line([e.pack, ...scores.map(s => {
    const x = s.entries[i];
    return x.right ? "right" : x.answered ? (x.name ? "wrong place" : "wrong") : "nothing";
  })]));' "$dir" >"$dir/table"
awk -v table="$dir/table" '
  /<!-- begin scores -->/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
  /<!-- end scores -->/ { skip = 0 }
  !skip { print }' docs/fixtures.md >"$dir/page"
if [ -n "$check" ]; then
  diff -u docs/fixtures.md "$dir/page"
else
  cp "$dir/page" docs/fixtures.md
fi
