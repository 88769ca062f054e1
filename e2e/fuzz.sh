#!/usr/bin/env bash
# Runs every fuzz target of the module and writes a report.
#
#   e2e/fuzz.sh [TIME [REPORT]]     TIME for each target, 10m by default
#
# FUZZ is a regular expression that selects targets, FUZZ_JOBS the number of targets
# to run concurrently. If a target fails, the others still run, and the exit status is
# not 0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-10m} report=${2:-}

targets=$(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | grep -v '^\./\.tools/' |
  sed -E 's#^(\./.*)/[^/]+:[0-9]+:func (Fuzz.*)$#\1 \2#' | sort | grep -E "${FUZZ:-.}" || true)
if [[ -z $targets ]]; then
  echo "no fuzz target found, or none matches FUZZ" >&2
  exit 1
fi

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# fuzz PACKAGE TARGET: runs a target and keeps the output in a separate file.
fuzz() {
  local name=${1#./}
  local log=$logs/${name//\//_}.$2
  local code attempt
  # Go before 1.27 sometimes reports the end of the time as an error (go.dev/issue/75804):
  # then no input failed, and the target runs again.
  for attempt in 1 2 3; do
    echo "== $1 $2 $(date -u +%FT%TZ) $time (attempt $attempt)" >"$log"
    # The minimizer can spend all the time on one input: keep failing inputs as they
    # were found.
    go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 1x "$1" >>"$log" 2>&1 && code=0 || code=$?
    if ((code == 0)) || grep -q 'Failing input written' "$log" || ! grep -qx '    context deadline exceeded' "$log"; then
      break
    fi
  done
  cat "$log"
  return "$code"
}

# Run FUZZ_JOBS targets concurrently, each with its share of the processors.
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
    echo "\`make test\` runs the seeds, and all inputs in testdata/fuzz."
    echo
    cat "$logs"/* | e2e/fuzz.awk
  } >"$report"
  echo "written to $report"
fi
exit "$failed"
