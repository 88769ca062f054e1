#!/usr/bin/env bash
# Builds the static program, as in a release:
#
#   deploy/build.sh OUTPUT [[OS/]ARCHITECTURE]    for arm64 on Linux, or for darwin/arm64;
#                                                 without one, for this machine
#
# VERSION, REVISION and DATE (RFC 3339) in the environment name the build; by default
# they are those of the git commit. Equal sources, names and Go versions build equal
# programs: nothing else of the machine goes into them.
set -euo pipefail
mkdir -p "$(dirname "$1")"
output=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

git_or() { local value; value=$(git "${@:2}" 2>/dev/null) && echo "$value" || echo "$1"; }
version=${VERSION:-$(git_or unknown describe --tags --always --dirty)}
revision=${REVISION:-$(git_or unknown rev-parse HEAD)}
date=${DATE:-$(TZ=UTC git_or unknown log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)}

export CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0
if (($# > 1)); then
  platform=linux/$2
  [[ $2 != */* ]] || platform=$2
  export GOOS=${platform%/*} GOARCH=${platform#*/}
fi
# Without the tags, gRPC links pages made of templates, and the validator a call of methods by
# their names: each keeps all methods of all types.
exec go build -trimpath -buildvcs=false -tags grpcnotrace,validator_novalidatefn -o "$output" \
  -ldflags "-s -w -X main.version=$version -X main.revision=$revision -X main.date=$date" ./cmd/koalagate
