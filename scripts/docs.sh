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

# prepare PAGE: the folder in which a page's commands run, and the program they mean.
prepare() {
  mkdir "$dir/page"
  program=$dir/firstbit
  if grep -q '^```diff$' "$1"; then
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$dir/page"
    sed -n '/^```diff$/,/^```$/{/^```/!p}' "$1" | (cd "$dir/page" && patch -p1 --quiet --no-backup-if-mismatch)
    program=$dir/changed
    (cd "$dir/page" && go build -o "$program" ./cmd/firstbit)
  fi
}

ran=0
[ $# -gt 0 ] || set -- README.md docs/*.md
for page in "$@"; do
  commands=$(sed -n 's/^    \(go run \.\/cmd\/firstbit .*\|python3 docs\/comparers\/.*\|go vet .*\|go test \.\/[a-z].*\)$/\1/p' "$page")
  [ -n "$commands" ] || continue
  prepare "$page"
  while IFS= read -r command; do
    printf '%s: %s\n' "$page" "$command"
    command=${command/docs\/comparers/\"$PWD\"/docs/comparers}
    want=0 got=0
    case $command in *'# exit 1') want=1 ;; esac
    (cd "$dir/page" && eval "${command/go run .\/cmd\/firstbit/\"$program\"}" </dev/null >"$dir/out" 2>&1) || got=$?
    if [ "$got" -ne "$want" ]; then
      tail -20 "$dir/out"
      echo "exit $got: must be $want"
      exit 1
    fi
    ran=$((ran + 1))
  done <<<"$commands"
  rm -rf "$dir/page"
done
[ "$ran" -gt 0 ] || { echo "no page has a command"; exit 1; }
echo "$ran commands"
