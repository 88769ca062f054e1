#!/usr/bin/env bash
# Makes the file system of the image, without a container:
#
#   deploy/docker/rootfs.sh FOLDER [amd64|arm64]
#
# It contains the program, also as /bin/ratelimit, the user, the authorities of the system
# for TLS, and empty folders for rule files and for state_dir. The Dockerfile copies it.
# PROGRAM is the program; by default deploy/build.sh builds it.
set -euo pipefail
mkdir -p "$1"
root=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mkdir -p "$root"/{bin,usr/bin,etc/koalagate/rules.d,etc/ssl/certs,var/lib/koalagate}
if [[ -n ${PROGRAM:-} ]]; then
  cp "$PROGRAM" "$root/usr/bin/koalagate"
else
  deploy/build.sh "$root/usr/bin/koalagate" "${@:2}"
fi
ln -sfn ../usr/bin/koalagate "$root/bin/ratelimit"
echo 'koalagate:x:65532:65532:koalagate:/:/sbin/nologin' >"$root/etc/passwd"
echo 'koalagate:x:65532:' >"$root/etc/group"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
chmod -R u=rwX,go=rX "$root"
