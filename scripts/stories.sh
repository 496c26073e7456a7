#!/usr/bin/env bash
# Tells the story of every cause in every precision in which it occurs, on every layout, or with `first` on the first layout of each, and writes the table
# between the markers of docs/precisions.md. With folders of results told before (reproduce --json, a file a run) it tells none.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/firstbit" ./cmd/firstbit
"$dir/firstbit" list --json >"$dir/list.json"

layout=(--layout each) results=
case ${1:-} in
  first) layout=() ;;
  ?*) results=$1 ;;
esac
if [ -z "$results" ]; then
  results=$dir/results
  mkdir "$results"
  node -e 'for (const c of JSON.parse(require("fs").readFileSync(process.argv[1])).causes) console.log(c.id)' "$dir/list.json" |
    xargs -P "$(nproc)" -I{} sh -c '"$0" reproduce "$1" --precision each --json '"${layout[*]}"' >"$2/$1.json" || [ $? -eq 1 ]' "$dir/firstbit" {} "$results"
fi

node -e '
  const fs = require("fs"), [list, dir] = process.argv.slice(1);
  const precisions = ["fp32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4"];
  const told = {}, failed = [];
  for (const f of fs.readdirSync(dir).filter(f => f.endsWith(".json"))) {
    const text = fs.readFileSync(`${dir}/${f}`, "utf8");
    if (text) for (const r of JSON.parse(text).results) {
      (told[`${r.cause} ${r.precision}`] ??= {})[r.layout] = r;
      if (!r.ok) failed.push(`${r.cause} ${r.layout} ${r.precision}: ${r.why.join("; ")}`);
    }
  }
  const line = cells => console.log("| " + cells.join(" | ") + " |");
  line(["cause", "layouts", ...precisions]);
  line(["---", "---", ...precisions.map(() => "---")]);
  for (const c of JSON.parse(fs.readFileSync(list)).causes)
    line([c.id, c.layouts.map(l => "`" + l + "`").join(" "), ...precisions.map(p => {
      if (!c.precisions.includes(p)) return "–";
      const of = Object.values(told[`${c.id} ${p}`] ?? {}), hidden = of.filter(r => r.hidden).map(r => r.layout);
      const own = of.filter(r => r.ok && !r.hidden).map(r => r.layout);
      const some = (word, layouts, where) => layouts.length === 0 ? [] : [layouts.length === c.layouts.length ? word : where + " " + layouts.map(l => "`" + l + "`").join(" ")];
      return [...some("all", own, "on"), ...some("hidden", hidden, "hidden on")].join(", ") || "not told";
    })]);
  for (const f of failed) console.error("NOT OK", f);
  process.exit(failed.length > 0 ? 1 : 0);' "$dir/list.json" "$results" >"$dir/table"
awk -v table="$dir/table" '
  /<!-- begin precisions -->/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
  /<!-- end precisions -->/ { skip = 0 }
  !skip { print }' docs/precisions.md >"$dir/page"
cp "$dir/page" docs/precisions.md
