#!/usr/bin/env bash
# Makes all files of a release from the tag of the commit, vX.Y.Z:
#
#   deploy/release.sh OUT KEY     or  make release OUT=FOLDER KEY=FILE
#
# OUT is a folder that does not exist yet, and KEY an Ed25519 key in PEM, which signs the
# checksums (openssl genpkey -algorithm ed25519 -out FILE). Equal commits, Go versions, keys
# and authorities of the system make equal files. docs/install/verify.md describes them.
set -euo pipefail
refuse() {
  echo "release: $*" >&2
  exit 1
}
[[ -n ${1:-} && -n ${2:-} ]] || refuse "want a folder for the files and the key that signs them: make release OUT=FOLDER KEY=FILE"
[[ ! -e $1 ]] || refuse "$1 exists; name a folder that does not"
mkdir -p "$(dirname "$1")"
out=$(realpath -m "$1")
openssl pkey -in "$2" -noout -text 2>/dev/null | grep -q '^ED25519 Private-Key' || refuse "$2 is no Ed25519 key in PEM; make one with: openssl genpkey -algorithm ed25519 -out FILE"
key=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/.tools/bin:$PATH

tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null) || refuse "the commit has no tag of a version; check out the tag of the release"
version=${tag#v}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "the tag is $tag; want vX.Y.Z"
changed=$(git status --porcelain)
[[ -z $changed ]] || refuse "the tree has changes that the tag does not; commit or remove them:"$'\n'"$changed"
grep -qE "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md || refuse "CHANGELOG.md: want the heading \"## [$version] - YYYY-MM-DD\""
for program in go nfpm jq; do
  command -v "$program" >/dev/null || refuse "$program is not on PATH; e2e/programs.sh nfpm fetches nfpm"
done

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
work=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf "$work"' EXIT
files=$work/files
mkdir "$files"
# pack ARCHIVE NAME: packs a folder of $work, equally each time.
pack() { tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" -c "$2" | gzip -9n >"$files/$1"; }

# The files of a commit, whatever else lies in the folder.
mkdir "$work/commit"
git archive HEAD | tar -x -C "$work/commit"
chmod -R u=rwX,go=rX "$work/commit"

VERSION=$tag deploy/build.sh "$work/host"
for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
  name=koalagate_${version}_${platform/\//_}
  mkdir "$work/$name"
  VERSION=$tag deploy/build.sh "$work/$name/koalagate" "$platform"
  (cd "$work/commit" && cp -r LICENSE NOTICE README.md CHANGELOG.md koalagate.example.yaml examples "$work/$name" &&
    cp --parents envoy/*.yaml nginx/*.conf deploy/{caddy,haproxy,traefik}/* "$work/$name") # the samples that pages name
  rm -rf "$work/$name/examples/gin" # a module of its own, which the sources have
  pack "$name.tar.gz" "$name"
done
program() { echo "$work/koalagate_${version}_linux_$1/koalagate"; }
for architecture in amd64 arm64; do
  for format in deb rpm; do
    VERSION=$version PROGRAM=$(program $architecture) HOST_PROGRAM=$work/host deploy/packages/build.sh "$files" $architecture $format >/dev/null
  done
done
deploy/docker/layout.sh "$files/koalagate_${version}_image.tar" "$tag" "amd64=$(program amd64)" "arm64=$(program arm64)"

mv "$work/commit/deploy/helm/koalagate" "$work/koalagate"
sed -i -E "s/^(version|appVersion): .*/\1: $version/" "$work/koalagate/Chart.yaml"
pack "koalagate-$version.tgz" koalagate

go -C deploy/sbom run . "$tag" "$work"/koalagate_*/koalagate >"$files/koalagate_$version.cdx.json"

openssl pkey -in "$key" -pubout -out "$files/release.pem"
(cd "$files" && LC_ALL=C sha256sum -- * >"$work/checksums.txt" && mv "$work/checksums.txt" .)
openssl pkeyutl -sign -inkey "$key" -rawin -in "$files/checksums.txt" -out "$files/checksums.txt.sig"
# Whole or not at all.
mv -T "$files" "$out"
ls -l "$out"
