#!/usr/bin/env bash
# Compares what the script in Redis costs per decision with another commit: its CPU time
# or, with -instructions, its instructions, also with the kept figures.
#
#   bench/script.sh COMMIT [-instructions] [-only REGEXP] [-rounds N] [-batch N]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
binary=$(bench/commit.sh "$1")
shift
e2e/programs.sh redis-server >&2
[[ " $* " != *" -instructions "* ]] || e2e/programs.sh valgrind >&2
go run ./bench/script -earlier "$binary" "$@"
