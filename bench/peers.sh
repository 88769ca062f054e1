#!/usr/bin/env bash
# Builds the rate limit services that the service is measured beside, into
# .tools/peers, from the Go module proxy. They are no part of the module.
#
#   bench/peers.sh     prints the binary of envoyproxy/ratelimit; nothing where it
#                      cannot be built, and says so
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly version=v1.4.1-0.20260122083618-3fb702589d36
readonly folder=$PWD/.tools/peers-$version

if [[ ! -x $folder/service_cmd ]]; then
  # Outside of the module, whose requirements must not hold for it.
  if ! (cd / && GOBIN=$folder go install "github.com/envoyproxy/ratelimit/src/service_cmd@$version") >&2; then
    echo "envoyproxy/ratelimit cannot be built here; the report will be without it" >&2
    exit 0
  fi
fi
echo "$folder/service_cmd"
