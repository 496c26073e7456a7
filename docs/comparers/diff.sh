#!/usr/bin/env bash
# diff.sh FIRSTBIT PACKS: what `firstbit diff` says of each pack, as `firstbit score` reads it.
set -euo pipefail
node -e '
  const { spawnSync } = require("child_process");
  const [firstbit, packs] = process.argv.slice(1), answers = [];
  for (const pack of JSON.parse(require("fs").readFileSync(packs + "/index.json")).packs) {
    const folder = `${packs}/${pack.cause}`;
    const out = spawnSync(firstbit, ["diff", folder + "/a", folder + "/b", "--json"], { maxBuffer: 1 << 28 });
    const { first, class: of } = JSON.parse(out.stdout);
    if (!first) continue;
    const name = [first.scope, first.name].filter(Boolean).join(".");
    answers.push({ pack: pack.cause, step: first.iteration, rank: first.rank, microbatch: first.microbatch, phase: first.phase, name, class: of });
  }
  console.log(JSON.stringify(answers));' "$@"
