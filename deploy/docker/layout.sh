#!/usr/bin/env bash
# Makes the image as an OCI layout in one file, without a container runtime:
#
#   deploy/docker/layout.sh FILE VERSION ARCHITECTURE=PROGRAM…
#
# The image is for all given architectures. What the Dockerfile sets is read from it.
# SOURCE_DATE_EPOCH is the time of the image in seconds since 1970; equal programs,
# authorities of the system and times make equal files.
set -euo pipefail
file=$(realpath "$1") version=$2
programs=("${@:3}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layout=$work/layout
mkdir -p "$layout/blobs/sha256"

final=$(sed '1,/^FROM scratch$/d' deploy/docker/Dockerfile | sed -e ':more' -e '/\\$/{N;s/\\\n *//;b more' -e '}')
# instruction NAME: the arguments of the instructions of that name.
instruction() { sed -n "s/^$1 //p" <<<"$final"; }
# seconds OPTION: the option of HEALTHCHECK in seconds.
seconds() { instruction HEALTHCHECK | sed -E "s/.*--$1=([0-9]+)s .*/\1/"; }

# config: what the Dockerfile sets, as JSON.
config() {
  jq -n \
    --arg user "$(instruction USER)" --arg stop "$(instruction STOPSIGNAL)" \
    --arg volume "$(instruction VOLUME)" --arg ports "$(instruction EXPOSE)" \
    --arg env "$(instruction ENV)" --arg version "$version" \
    --argjson entrypoint "$(instruction ENTRYPOINT)" --argjson cmd "$(instruction CMD)" \
    --argjson health "$(instruction HEALTHCHECK | sed 's/.* CMD //')" \
    --argjson interval "$(seconds interval)" --argjson timeout "$(seconds timeout)" --argjson start "$(seconds start-period)" \
    --argjson retries "$(instruction HEALTHCHECK | sed -E 's/.*--retries=([0-9]+) .*/\1/')" \
    --argjson labels "$(instruction LABEL | grep -oE '[a-z.]+="[^"]*"' | jq -Rn '[inputs | split("=\"") | {(.[0]): .[1][:-1]}] | add')" '{
      User: $user, StopSignal: $stop, Entrypoint: $entrypoint, Cmd: $cmd, Env: ($env | split(" ") | map(select(. != ""))),
      ExposedPorts: ($ports | split(" ") | map({(. + "/tcp"): {}}) | add), Volumes: {($volume): {}},
      Labels: ($labels + {"org.opencontainers.image.version": $version}),
      Healthcheck: {Test: (["CMD"] + $health), Interval: ($interval * 1e9), Timeout: ($timeout * 1e9), StartPeriod: ($start * 1e9), Retries: $retries}
    }'
}

# add TYPE FILE: moves a file into the layout, and prints its descriptor.
add() {
  local digest size
  digest=$(sha256sum "$2" | cut -d ' ' -f 1)
  size=$(stat -c %s "$2")
  mv "$2" "$layout/blobs/sha256/$digest"
  jq -nc --arg type "$1" --arg digest "sha256:$digest" --argjson size "$size" '{mediaType: $type, digest: $digest, size: $size}'
}

created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
# What instances remember belongs to their user, everything else to root.
owner=$(sed -n 's/^COPY .*--chown=\([0-9]*\):.*/\1/p' <<<"$final")
manifests=()
for entry in "${programs[@]}"; do
  architecture=${entry%%=*}
  root=$work/root-$architecture
  PROGRAM=${entry#*=} deploy/docker/rootfs.sh "$root"
  archive=(tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner --format=gnu -C "$root" --no-recursion)
  (cd "$root" && find . -mindepth 1 ! -path ./var/lib/koalagate -printf '%P\n' | LC_ALL=C sort) >"$work/names"
  "${archive[@]}" --owner=0 --group=0 -cf "$work/layer" -T "$work/names"
  "${archive[@]}" --owner="$owner" --group="$owner" -rf "$work/layer" var/lib/koalagate
  diff_id=sha256:$(sha256sum "$work/layer" | cut -d ' ' -f 1)
  gzip -9nc "$work/layer" >"$work/layer.gz"
  layer=$(add application/vnd.oci.image.layer.v1.tar+gzip "$work/layer.gz")
  config | jq -c --arg architecture "$architecture" --arg created "$created" --arg diff "$diff_id" '{
    created: $created, architecture: $architecture, os: "linux", config: .,
    rootfs: {type: "layers", diff_ids: [$diff]}, history: [{created: $created, created_by: "deploy/docker/layout.sh"}]
  }' >"$work/config"
  config=$(add application/vnd.oci.image.config.v1+json "$work/config")
  jq -nc --argjson config "$config" --argjson layer "$layer" '{
    schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config, layers: [$layer]
  }' >"$work/manifest"
  manifests+=("$(add application/vnd.oci.image.manifest.v1+json "$work/manifest" | jq -c --arg architecture "$architecture" '. + {platform: {architecture: $architecture, os: "linux"}}')")
done
printf '%s\n' "${manifests[@]}" | jq -sc '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: .}' >"$work/index"
index=$(add application/vnd.oci.image.index.v1+json "$work/index")
jq -nc --argjson index "$index" --arg version "$version" '{
  schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
  manifests: [$index + {annotations: {"org.opencontainers.image.ref.name": $version}}]
}' >"$layout/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
chmod -R u=rwX,go=rX "$layout"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$layout" -cf "$file" blobs index.json oci-layout
