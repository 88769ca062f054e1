#!/usr/bin/env bash
# Compares the CPU and the allocations of a call with another commit, in all scenes whose
# rules both know, and prints what costs more than 1.03 times as much.
#
#   bench/earlier.sh COMMIT [-rounds N] [-only REGEXP] [-span DURATION]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
binary=$(bench/commit.sh "$1")
shift
go run ./bench/load -rounds 9 -earlier "$binary" "$@"
