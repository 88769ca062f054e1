#!/usr/bin/env bash
# Builds the service of another commit into .tools/earlier and prints its path.
#
#   bench/commit.sh COMMIT
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
commit=$(git rev-parse --short "$1^{commit}")
readonly binary=$PWD/.tools/earlier/koalagate-$commit

if [[ ! -x $binary ]]; then
  tree=$(mktemp -d)
  trap 'rm -rf "$tree"' EXIT
  git archive "$commit" | tar -x -C "$tree"
  mkdir -p "${binary%/*}"
  go build -C "$tree" -o "$binary" ./cmd/koalagate >&2
fi
echo "$binary"
