#!/usr/bin/env bash
# Builds the files of a release, for amd64 and arm64: archives with the program, and
# Debian packages. The commit must have a version tag.
#
#   deploy/release.sh FOLDER
set -euo pipefail
mkdir -p "$1"
folder=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/.tools/bin:$PATH

tag=$(git describe --tags --exact-match)
grep -qE "^## \[${tag#v}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md || {
  echo "CHANGELOG.md: want the heading \"## [${tag#v}] - YYYY-MM-DD\" for this release" >&2
  exit 1
}
epoch=$(git log -1 --format=%ct)
for architecture in amd64 arm64; do
  name=koalagate_${tag#v}_linux_$architecture
  stage=$(mktemp -d)
  mkdir "$stage/$name"
  deploy/build.sh "$stage/$name/koalagate" "$architecture"
  cp LICENSE NOTICE README.md CHANGELOG.md koalagate.example.yaml "$stage/$name"
  cp -r examples "$stage/$name/examples"
  rm -rf "$stage/$name/examples/gin"
  # Equal commits build equal archives.
  tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -C "$stage" -c "$name" | gzip -9n >"$folder/$name.tar.gz"
  rm -rf "$stage"
  VERSION=${tag#v} deploy/deb/build.sh "$folder" "$architecture"
done
