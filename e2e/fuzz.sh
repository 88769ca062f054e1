#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other.
#
#   e2e/fuzz.sh [TIME]     for TIME each, 10m unless said
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

targets=$(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | grep -v '^\./\.tools/' |
  sed -E 's#^(\./.*)/[^/]+:[0-9]+:func (Fuzz.*)$#\1 \2#' | sort)
if [[ -z $targets ]]; then
  echo "there is no fuzz target in this tree" >&2
  exit 1
fi
while read -r package target; do
  echo "== $package $target"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-10m}" "$package"
done <<<"$targets"
