#!/usr/bin/env bash
# The long form of the tests: everything in `make test`, every package with a long
# form in that form, and every fuzz target for some time. If one
# fails, the others still run. Commands, durations and output are kept in docs/reports/verify
# by date and commit, and the exit status is 0 if all passed.
#
# FUZZTIME is the time for each fuzz target, 30s by default; FUZZ_JOBS the number of
# concurrent targets, one per processor by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

report=$(mktemp) table=$(mktemp)
toxic_report=$(mktemp) toxic_table=$(mktemp)
trap 'rm -f "$report" "$table" "$toxic_report" "$toxic_table"' EXIT
failed=0

# show COMMAND…: runs a command, and writes it with its output into the report,
# without progress lines, lines of passed subtests, temporary folders and the path of the tree.
show() {
  local begin=$SECONDS word=passed
  echo "## $*"
  printf '\n## %s\n\n~~~\n' "$*" >>"$report"
  if ! "$@" 2>&1 | tee -a /dev/stderr | sed -E '/^(=== |fuzz: elapsed|redis: )|^ +--- PASS/d; s,/tmp/[A-Za-z]+[0-9]+/[0-9]{3}/,,g; s,'"$PWD"'/,,g' >>"$report"; then
    word=FAILED failed=1
  fi
  echo '~~~' >>"$report"
  echo "| \`$*\` | $word | $((SECONDS - begin)) s |" >>"$table"
}

# show_toxic runs the faults of e2e/toxic, with a report and a table of their own.
show_toxic() {
  local report=$toxic_report table=$toxic_table
  show go -C e2e/toxic test -count=1 -timeout 40m -v . -long
  return "$failed"
}

export GOFLAGS=${GOFLAGS:-}
commit=$(git describe --always --dirty --exclude '*')
show e2e/programs.sh
show e2e/programs.sh packaging
show e2e/programs.sh controlplanes
GOFLAGS="$GOFLAGS -count=1" show make --no-print-directory test
# A package has a long form if its tests define the flag -long. The race detector
# covers the short forms, and the services started by long forms, too.
long_forms() {
  grep -rlE --include='*_test.go' 'flag\.Bool\("long"' . | grep -vE '^\./(\.tools|e2e/toxic|e2e/page)/' | xargs -n 1 dirname | sort -u
}
while read -r package; do
  show go test -count=1 -timeout 60m -v "$package" -long
done < <(long_forms | grep '^\./e2e')
show go -C e2e/page test -count=1 -timeout 60m -v . -long
# The faults of e2e/toxic mostly wait, so they run with the long forms that have no
# gateways with deadlines.
show_toxic &
toxic=$!
# Two at a time. The stores, whose paths are the deepest, take the longest and come first.
mapfile -t packages < <(long_forms | grep -v '^\./e2e' | sort -t / -k 4,4r)
show go test -count=1 -p 2 -timeout 60m -v "${packages[@]}" -long
wait "$toxic" || failed=1
cat "$toxic_report" >>"$report"
cat "$toxic_table" >>"$table"
FUZZ_JOBS=${FUZZ_JOBS:-$(nproc)} show e2e/fuzz.sh "${FUZZTIME:-30s}"

mkdir -p docs/reports/verify
kept=docs/reports/verify/$(date -u +%F)-$commit.md
{
  echo "# Verification"
  echo
  echo "Written by \`make verify\` at commit $commit, $(go env GOVERSION), $(date -u +%F), $(nproc) cores."
  echo
  echo "| command | outcome | took |"
  echo "| --- | --- | --- |"
  cat "$table" "$report"
} >"$kept"
echo "written to $kept"
cat "$table"
exit "$failed"
