#!/usr/bin/env bash
# Starts the file system of the image as a container would, in the namespaces that the
# caller has made. ROOT is the file system; IMAGE_USER, IMAGE_ENV, IMAGE_START and IMAGE_HEALTH are
# those of the Dockerfile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The words of the Dockerfile contain no spaces.
read -ra start <<<"$IMAGE_START"
read -ra health <<<"$IMAGE_HEALTH"
read -ra variables <<<"$IMAGE_ENV"

mount --make-rprivate /
mount -t proc proc /proc
mount --bind "$ROOT" "$ROOT"
rules=$(mktemp -d)
cp -r examples/gateway.conf examples/lists "$rules"
chmod -R go=rX "$rules"
mount --bind "$rules" "$ROOT/etc/koalagate/rules.d"
mount -t tmpfs -o "uid=${IMAGE_USER%:*},gid=${IMAGE_USER#*:},mode=700" volume "$ROOT/var/lib/koalagate"
mount -o remount,bind,ro "$ROOT"
mount -o remount,bind,ro "$ROOT/etc/koalagate/rules.d"
ip link set lo up

# Before a program of the image: it runs as the image's user, which has no capabilities
# and cannot get any.
confined=(setpriv --no-new-privs --clear-groups
  unshare "--root=$ROOT" --wd=/ "--setgid=${IMAGE_USER#*:}" "--setuid=${IMAGE_USER%:*}")
inside=(env -i "PATH=$PATH" "${variables[@]}" "${confined[@]}")
fail() {
  echo "FAILED: $*"
  exit 1
}

! "${inside[@]}" "${health[@]}" || fail "healthy before the start"
"${inside[@]}" "${start[@]}" &
pid=$!
for ((tries = 0; tries < 100; tries++)); do
  ! "${inside[@]}" "${health[@]}" 2>/dev/null || break
  sleep 0.1
done
"${inside[@]}" "${health[@]}" || fail "not healthy"
grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs):' "/proc/$pid/status"
grep -q '^Uid:.65532' "/proc/$pid/status" || fail "another user"
grep -q '^CapEff:.0*$' "/proc/$pid/status" || fail "with capabilities"
"${inside[@]}" "${start[0]}" --version
for want in 200 200 200 200 429; do
  got=$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:9981/v1/forward-auth -H 'X-User-Id: ann' \
    -H 'X-Forwarded-For: 203.0.113.7' -H 'X-Forwarded-Method: POST' -H 'X-Forwarded-Uri: /api/comments')
  [[ $got == "$want" ]] || fail "a comment got $got, want $want"
done
kill -TERM "$pid"
wait "$pid" || fail "it ended with $?"
! "${inside[@]}" "${health[@]}" || fail "healthy after the end"
echo "healthy, and refused the fifth comment"

# In the place of envoyproxy/ratelimit, as docs/moving/from-envoyproxy-ratelimit.md says: the
# variables of the image set back.
back=(KOALAGATE_RULES= KOALAGATE_STATE_DIR= KOALAGATE_GRPC_ADDR=:8081 KOALAGATE_HTTP_ADDR=:8080 KOALAGATE_ADMIN_ADDR=:6070)
env -i "PATH=$PATH" "${variables[@]}" "${back[@]}" "${confined[@]}" /bin/ratelimit &
pid=$!
for ((tries = 0; tries < 100; tries++)); do
  [[ $(curl -s http://127.0.0.1:8080/healthcheck) != OK ]] || break
  sleep 0.1
done
[[ $(curl -s http://127.0.0.1:8080/healthcheck) == OK ]] || fail "not healthy under the name ratelimit"
curl -sf http://127.0.0.1:6070/rlconfig >/dev/null || fail "no limits at the debug port"
kill -TERM "$pid"
wait "$pid" || fail "it ended with $? under the name ratelimit"
echo "healthy under the name ratelimit"
