#!/usr/bin/env bash
# Builds the service of another commit, as a release has it, into .tools/released and
# prints its path.
#
#   bench/commit.sh COMMIT
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
commit=$(git rev-parse --short "$1^{commit}")
readonly binary=$PWD/.tools/released/koalagate-$commit

if [[ ! -x $binary ]]; then
  tree=$(mktemp -d)
  trap 'rm -rf "$tree"' EXIT
  git archive "$commit" | tar -x -C "$tree"
  mkdir -p "${binary%/*}"
  if [[ -x $tree/deploy/build.sh ]]; then
    VERSION=$commit REVISION=$commit DATE=$(git log -1 --format=%cI "$commit") "$tree/deploy/build.sh" "$binary" >&2
  else
    CGO_ENABLED=0 go build -C "$tree" -trimpath -ldflags '-s -w' -o "$binary" ./cmd/koalagate >&2
  fi
fi
echo "$binary"
