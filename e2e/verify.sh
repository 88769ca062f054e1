#!/usr/bin/env bash
# The long form of the tests: everything `make test` runs, the end-to-end
# stories in their many rounds, and a minute of every fuzz target. What was run
# and what it said is kept in docs/verify, by date and commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

report=$(mktemp)
trap 'rm -f "$report"' EXIT

# show COMMAND…: runs it, and writes command and output into the report, less
# the lines that say that something goes on.
show() {
  echo "## $*"
  {
    printf '\n## %s\n\n~~~\n' "$*"
    "$@" 2>&1 | tee /dev/stderr | sed -E '/^(=== |fuzz: elapsed)/d'
    echo '~~~'
  } >>"$report"
}

{
  echo "# Verification"
  echo
  echo "Written by \`make verify\` at commit $(git rev-parse --short HEAD), $(go env GOVERSION), $(date -u +%F), $(nproc) cores."
} >"$report"
show e2e/programs.sh
show go test -race -vet=all -count=1 -timeout 20m ./...
show go test -race -count=1 -timeout 30m -v ./store -long -run 'AnswersAsTheModel|FourProcesses|LeakNeverBlocks'
show go test -race -count=1 -timeout 30m -v ./e2e -long
show go -C examples/gin vet .
show e2e/fuzz.sh "${FUZZTIME:-1m}"
kept=docs/verify/$(date -u +%F)-$(git rev-parse --short HEAD).md
mkdir -p docs/verify
cp "$report" "$kept"
echo "kept in $kept"
