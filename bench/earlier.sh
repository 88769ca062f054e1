#!/usr/bin/env bash
# Compares the CPU per call with that of an earlier commit, on rules that both know, and
# prints the sections and goals. Builds the commit in .tools.
#
#   bench/earlier.sh COMMIT [-rounds N]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
commit=$(git rev-parse --short "$1^{commit}")
readonly binary=$PWD/.tools/earlier/koalagate-$commit
shift

if [[ ! -x $binary ]]; then
  tree=$(mktemp -d)
  trap 'rm -rf "$tree"' EXIT
  git archive "$commit" | tar -x -C "$tree"
  mkdir -p "${binary%/*}"
  go build -C "$tree" -o "$binary" ./cmd/koalagate
fi
go run ./bench/load -earlier "$binary" -only '^An earlier version' "$@"
