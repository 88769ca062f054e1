#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other.
#
#   e2e/fuzz.sh [TIME]     for TIME each, 10m unless said
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly time=${1:-10m}
targets=$(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | grep -v '^\./\.tools/' |
  sed -E 's#^(\./.*)/[^/]+:[0-9]+:func (Fuzz.*)$#\1 \2#' | sort)
if [[ -z $targets ]]; then
  echo "there is no fuzz target in this tree" >&2
  exit 1
fi
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# fuzz PACKAGE TARGET: fails if an input does. The fuzzing engine may also end
# with "context deadline exceeded" when its time is over; that is no finding.
fuzz() {
  go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "$1" 2>&1 | tee "$output" && return
  grep -q '^ *context deadline exceeded$' "$output" && ! grep -q 'Failing input' "$output"
}

while read -r package target; do
  echo "== $package $target"
  fuzz "$package" "$target"
done <<<"$targets"
