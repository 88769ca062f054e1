#!/usr/bin/env bash
# Compares the CPU and the allocations of a call with another commit, in all scenes whose
# rules both know, and prints what costs more than 1.03 times as much. With -instructions it
# counts the service's instructions instead of its CPU time, in process: two rounds of 2 s do.
#
#   bench/earlier.sh COMMIT [-instructions] [-rounds N] [-only REGEXP] [-span DURATION]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
binary=$(bench/commit.sh "$1")
shift
[[ " $* " != *" -instructions "* ]] || e2e/programs.sh valgrind >&2
go run ./bench/load -rounds 9 -earlier "$binary" "$@"
