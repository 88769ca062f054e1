#!/usr/bin/env bash
# The long form of the tests: all that `make test` runs, every package that has a
# long form in that form, the example module, and a while of every fuzz target.
# One that fails does not keep the others from running. What was run, how long it
# took and what it said is kept in docs/verify by date and commit, and the exit
# status tells whether all of it passed.
#
# FUZZTIME is how long each fuzz target runs, 30s unless said; FUZZ_JOBS how many
# do at a time, one a processor unless said.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

report=$(mktemp)
table=$(mktemp)
trap 'rm -f "$report" "$table"' EXIT
failed=0

# show COMMAND…: runs it, and writes command and output into the report, less
# the lines that say that something goes on, and those of tests within tests
# that passed.
show() {
  local begin=$SECONDS word=passed
  echo "## $*"
  printf '\n## %s\n\n~~~\n' "$*" >>"$report"
  if ! "$@" 2>&1 | tee -a /dev/stderr | sed -E '/^(=== |fuzz: elapsed|redis: )|^ +--- PASS/d' >>"$report"; then
    word=FAILED failed=1
  fi
  echo '~~~' >>"$report"
  echo "| \`$*\` | $word | $((SECONDS - begin)) s |" >>"$table"
}

export GOFLAGS=${GOFLAGS:-}
commit=$(git describe --always --dirty --exclude '*')
show e2e/programs.sh
GOFLAGS="$GOFLAGS -count=1" show make --no-print-directory test
# A package has a long form if its tests ask for the flag -long. The race
# detector has seen the short forms; the services that stories start have it in
# the long ones, too.
while read -r package; do
  show go test -count=1 -timeout 40m -v "$package" -long
done < <(grep -rlE --include='*_test.go' 'flag\.Bool\("long"' . | grep -vE '^\./(\.tools|e2e/toxic)/' | xargs -n 1 dirname | sort -u)
show go -C e2e/toxic test -count=1 -timeout 40m -v . -long
show go -C examples/gin vet .
FUZZ_JOBS=${FUZZ_JOBS:-$(nproc)} show e2e/fuzz.sh "${FUZZTIME:-30s}"

mkdir -p docs/verify
kept=docs/verify/$(date -u +%F)-$commit.md
{
  echo "# Verification"
  echo
  echo "Written by \`make verify\` at commit $commit, $(go env GOVERSION), $(date -u +%F), $(nproc) cores."
  echo
  echo "| command | outcome | took |"
  echo "| --- | --- | --- |"
  cat "$table" "$report"
} >"$kept"
echo "kept in $kept"
cat "$table"
exit "$failed"
