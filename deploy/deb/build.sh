#!/usr/bin/env bash
# Builds the Debian package with nfpm:
#
#   deploy/deb/build.sh FOLDER [amd64|arm64]
#
# VERSION is the version of the package without "v"; by default it is derived from the
# git commit. The package is FOLDER/koalagate_VERSION_ARCHITECTURE.deb.
set -euo pipefail
mkdir -p "$1"
folder=$(realpath "$1")
export ARCH=${2:-amd64}
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

VERSION=v$VERSION deploy/build.sh "$STAGE/koalagate" "$ARCH"
# The pages and scripts do not depend on the architecture; the host's program writes them.
if [[ $ARCH == $(go env GOHOSTARCH) ]]; then
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
nfpm package --config deploy/deb/nfpm.yaml --packager deb --target "$folder/koalagate_${VERSION}_$ARCH.deb"
