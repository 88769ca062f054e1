#!/usr/bin/env bash
# Measures the promised performance and writes it to docs: the service under load and
# under attack, several instances with one Redis, the rule language, and the
# micro-benchmarks in benchstat format.
#
#   bench/run.sh [-short]     -short is for development, and writes no reports
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The packages whose benchmarks are recorded.
readonly packages=(./engine ./envoy ./extauthz ./koala ./internal/mapping ./nginx ./ratelimit ./rules ./internal/store ./internal/store/lease ./internal/store/memory ./internal/store/redis)

peer=$(bench/peers.sh)
if [[ ${1:-} == -short ]]; then
  go run ./bench/load -short -ratelimit "$peer"
  exit
fi

go run ./bench/load -ratelimit "$peer" -o docs/reports/bench-load.md

go run ./bench/hostile -o docs/reports/bench-hostile.md

go run ./bench/operators -o docs/reports/bench-operators.md

go run ./bench/scale -o docs/reports/bench-scale.md

mkdir -p docs/reports
echo "micro-benchmarks: docs/reports/micro.txt"
# bench/language measures word lists, which take long to build.
go test -run '^$' -bench . -skip WordList -benchmem -benchtime 50ms -count 6 "${packages[@]}" |
  grep -E '^(Benchmark.* ns/op|goos|goarch|pkg|cpu)' >docs/reports/micro.txt

go run ./bench/language -o docs/reports/bench-rules.md
