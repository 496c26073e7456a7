#!/usr/bin/env bash
# Runs every fuzz target for a while, one to a processor: fuzz.sh [TIME], 10s unless given.
#
# Before Go 1.27 the fuzzer may report its own deadline as a failure (go.dev/issue/75804). Such a
# run found no input and is repeated; whatever else fails, fails.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-10s}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fuzz() { # fuzz PACKAGE TARGET
  local log=$dir/$2.log
  for _ in 1 2 3; do
    if go test "$1" -parallel 1 -run '^$' -fuzz "^$2\$" -fuzztime "$time" </dev/null >"$log" 2>&1; then
      echo "$1 $2: $(grep -o 'execs: [0-9]*' "$log" | tail -1)"
      return
    fi
    if grep -q 'Failing input\|panic' "$log" || ! grep -q '^ *context deadline exceeded$' "$log"; then
      break
    fi
    echo "$1 $2: the fuzzer's own deadline, again"
  done
  tail -40 "$log"
  touch "$dir/failed"
}

targets=$(grep -rnE '^func Fuzz[A-Za-z0-9_]*\(' --include='*_test.go' . | sort)
while IFS=: read -r file _ declaration; do
  target=${declaration#func }
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do sleep 0.2; done
  fuzz "$(dirname "$file")" "${target%%(*}" &
done <<<"$targets"
wait
[ ! -f "$dir/failed" ]
