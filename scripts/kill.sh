#!/bin/sh
# Kills runs that save checkpoints so many times at random moments and continues them: every checkpoint is whole, and the bits are those of
# a run that nobody killed.
set -eu
cd "$(dirname "$0")/.."
go test ./cmd/firstbit -run 'TestKilledWhileSaving$' -count=1 -v -timeout 60m -args -kills "${1:-1000}"
