#!/usr/bin/env bash
# Builds the rate limit services for comparison into .tools/peers, from the Go module
# proxy. They are not part of the module.
#
#   bench/peers.sh     prints the path of envoyproxy/ratelimit, or nothing and a
#                      message if it cannot be built
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly version=v1.4.1-0.20260122083618-3fb702589d36
readonly folder=$PWD/.tools/peers-$version

if [[ ! -x $folder/service_cmd ]]; then
  # Build outside the module, so that its requirements do not apply.
  if ! (cd / && GOBIN=$folder go install "github.com/envoyproxy/ratelimit/src/service_cmd@$version") >&2; then
    echo "envoyproxy/ratelimit cannot be built; the report omits it" >&2
    exit 0
  fi
fi
echo "$folder/service_cmd"
