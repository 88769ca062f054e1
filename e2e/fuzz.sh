#!/usr/bin/env bash
# Runs every fuzz target of the module and keeps what came of them.
#
#   e2e/fuzz.sh [TIME [REPORT]]     for TIME each, 10m unless said
#
# FUZZ is a regular expression that selects targets, FUZZ_JOBS how many run at a
# time. A target that fails does not keep the others from running; the exit
# status tells of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-10m} report=${2:-}

targets=$(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | grep -v '^\./\.tools/' |
  sed -E 's#^(\./.*)/[^/]+:[0-9]+:func (Fuzz.*)$#\1 \2#' | sort | grep -E "${FUZZ:-.}" || true)
if [[ -z $targets ]]; then
  echo "there is no fuzz target in this tree, or none that FUZZ selects" >&2
  exit 1
fi

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# fuzz PACKAGE TARGET: keeps what go test says in a file of its own.
fuzz() {
  local name=${1#./}
  local log=$logs/${name//\//_}.$2
  echo "== $1 $2 $(date -u +%FT%TZ) $time" >"$log"
  # The minimiser can work on one input for all the time there is. What fails
  # is kept as it was found.
  go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 1x "$1" >>"$log" 2>&1 && code=0 || code=$?
  cat "$log"
  return "$code"
}

# FUZZ_JOBS targets run at a time, on a share of the processors each.
jobs=${FUZZ_JOBS:-1} failed=0
export GOMAXPROCS=$(((${GOMAXPROCS:-$(nproc)} + jobs - 1) / jobs))
while read -r package target; do
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || failed=1; done
  fuzz "$package" "$target" &
done <<<"$targets"
while (($(jobs -p | wc -l) > 0)); do wait -n || failed=1; done

if [[ -n $report ]]; then
  mkdir -p "$(dirname "$report")"
  {
    echo "# Fuzzing"
    echo
    echo "Written by \`make fuzz\` at commit $(git rev-parse --short HEAD), $(go env GOVERSION), $(nproc) cores."
    echo "\`make test\` runs the seeds, and every find that is kept in testdata/fuzz."
    echo
    cat "$logs"/* | e2e/fuzz.awk
  } >"$report"
  echo "kept in $report"
fi
exit "$failed"
