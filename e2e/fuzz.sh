#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, and keeps what
# came of them.
#
#   e2e/fuzz.sh [TIME [REPORT]]     for TIME each, 10m unless said
#
# FUZZ is a regular expression that selects targets. A target that fails does
# not keep the others from running; the exit status tells of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-10m} report=${2:-}

targets=$(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | grep -v '^\./\.tools/' |
  sed -E 's#^(\./.*)/[^/]+:[0-9]+:func (Fuzz.*)$#\1 \2#' | sort | grep -E "${FUZZ:-.}" || true)
if [[ -z $targets ]]; then
  echo "there is no fuzz target in this tree, or none that FUZZ selects" >&2
  exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
while read -r package target; do
  echo "== $package $target $(date -u +%FT%TZ) $time"
  # The minimiser can work on one input for all the time there is. What fails
  # is kept as it was found.
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1x "$package" || failed=1
done <<<"$targets" > >(tee "$log") 2>&1
wait

if [[ -n $report ]]; then
  mkdir -p "$(dirname "$report")"
  {
    echo "# Fuzzing"
    echo
    echo "Written by \`make fuzz\` at commit $(git rev-parse --short HEAD), $(go env GOVERSION), $(nproc) cores."
    echo "\`make test\` runs the seeds, and every find that is kept in testdata/fuzz."
    echo
    e2e/fuzz.awk "$log"
  } >"$report"
  echo "kept in $report"
fi
exit "$failed"
