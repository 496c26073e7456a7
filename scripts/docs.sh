#!/usr/bin/env bash
# docs.sh [PAGE…]: runs the commands of README.md and docs/, or of the pages given, that are shown without their output, each page's in a folder of its own, and stops
# at the first that fails. Where a page shows changes to the source, its commands run in a copy of the tree that has them.
# A command whose line ends in `# exit 1` must end so.
# Commands that are shown with their output are in the tests. Programs of docs/comparers are found from there too.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/firstbit" ./cmd/firstbit

# prepare PAGE: the folder in which a page's commands run, which is left standing in it, and the program they mean.
prepare() {
  at=$dir/pages/${1//\//.}
  mkdir -p "$at"
  program=$dir/firstbit
  if grep -q '^```diff$' "$1"; then
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$at"
    sed -n '/^```diff$/,/^```$/{/^```/!p}' "$1" | (cd "$at" && patch -p1 --quiet --no-backup-if-mismatch)
    program=$at.changed
    (cd "$at" && go build -o "$program" ./cmd/firstbit)
  fi
}

# run PAGE COMMANDS: all of them, or up to the first that ends otherwise than it must. Of each that ran, a line in ran.
run() {
  prepare "$1"
  while IFS= read -r command; do
    printf '%s: %s\n' "$1" "$command"
    for folder in docs/comparers recipe/testdata; do # what a reader has in the clone
      command=${command//"$folder"/\"$PWD\"/$folder}
    done
    want=0 got=0
    case $command in *'# exit 1') want=1 ;; esac
    (cd "$at" && eval "${command/go run .\/cmd\/firstbit/\"$program\"}" </dev/null >"$at.out" 2>&1) || got=$?
    if [ "$got" -ne "$want" ]; then
      tail -20 "$at.out"
      echo "exit $got: must be $want"
      return 1
    fi
    echo >>"$at.ran"
  done <<<"$2"
  rm -rf "$at"
  touch "$at.passed"
}

# Pages run beside one another, as many as there are processors.
[ $# -gt 0 ] || set -- README.md docs/*.md
pages=()
for page in "$@"; do
  commands=$(sed -n 's/^    \(go run \.\/cmd\/firstbit .*\|python3 docs\/comparers\/.*\|go vet .*\|go test \.\/[a-z].*\)$/\1/p' "$page")
  [ -n "$commands" ] || continue
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do sleep 0.2; done
  pages+=("$dir/pages/${page//\//.}")
  mkdir -p "$dir/pages"
  run "$page" "$commands" >"${pages[-1]}.said" 2>&1 &
done
wait
[ ${#pages[@]} -gt 0 ] || { echo "no page has a command"; exit 1; }
status=0
for page in "${pages[@]}"; do
  cat "$page.said"
  [ -f "$page.passed" ] || status=1
done
echo "$(cat "$dir"/pages/*.ran | wc -l) commands"
exit $status
