#!/usr/bin/env bash
# Builds a package with nfpm:
#
#   deploy/packages/build.sh FOLDER [amd64|arm64] [deb|rpm]
#
# VERSION is the version of the package without "v"; by default it is derived from the
# git commit. PROGRAM and HOST_PROGRAM are the program for the architecture and for this
# machine; by default deploy/build.sh builds them. The package is
# FOLDER/koalagate_VERSION_amd64.deb or FOLDER/koalagate-VERSION-1.x86_64.rpm.
set -euo pipefail
mkdir -p "$1"
folder=$(realpath "$1")
export ARCH=${2:-amd64}
format=${3:-deb}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

commit=$(git describe --tags --always --dirty)
# A commit without a tag is older than any release.
[[ $commit == v[0-9]* ]] || commit=0.0.0+$commit
VERSION=${VERSION:-${commit#v}}
VERSION=${VERSION/-/+}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
STAGE=$(mktemp -d)
export VERSION SOURCE_DATE_EPOCH STAGE
trap 'rm -rf "$STAGE"' EXIT

if [[ -n ${PROGRAM:-} ]]; then
  cp "$PROGRAM" "$STAGE/koalagate"
else
  VERSION=v$VERSION deploy/build.sh "$STAGE/koalagate" "$ARCH"
fi
# The pages and scripts do not depend on the architecture; the host's program writes them.
if [[ -n ${HOST_PROGRAM:-} ]]; then
  cp "$HOST_PROGRAM" "$STAGE/host"
elif [[ $ARCH == $(go env GOHOSTARCH) ]]; then
  ln -s koalagate "$STAGE/host"
else
  VERSION=v$VERSION deploy/build.sh "$STAGE/host"
fi
mkdir "$STAGE/man" "$STAGE/completion"
"$STAGE/host" man "$STAGE/man"
gzip -9n "$STAGE"/man/*.1
for shell in bash zsh fish; do
  "$STAGE/host" completion "$shell" >"$STAGE/completion/koalagate.$shell"
done
gzip -9nc CHANGELOG.md >"$STAGE/changelog.gz"
cat LICENSE NOTICE >"$STAGE/copyright"
if [[ $format == rpm ]]; then
  declare -A names=([amd64]=x86_64 [arm64]=aarch64)
  file=koalagate-$VERSION-1.${names[$ARCH]}.rpm
else
  file=koalagate_${VERSION}_$ARCH.deb
fi
nfpm package --config deploy/packages/nfpm.yaml --packager "$format" --target "$folder/$file"
