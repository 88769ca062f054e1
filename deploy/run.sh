#!/usr/bin/env bash
# Starts bin/koalagate, or the program in KOALAGATE, with the sample rules and
# in-process counters, and prints curl commands. ^C stops it. To choose addresses:
#
#   GRPC=127.0.0.1:19191 HTTP=127.0.0.1:19981 ADMIN=127.0.0.1:19982 make run
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly koalagate=${KOALAGATE:-bin/koalagate}
readonly grpc=${GRPC:-127.0.0.1:9191} http=${HTTP:-127.0.0.1:9981} admin=${ADMIN:-127.0.0.1:9982}

# taken ADDRESS: succeeds if a program already listens there.
taken() {
  local port=${1##*:}
  (exec 3<>"/dev/tcp/${1%:*}/$port") 2>/dev/null
}

for address in "$grpc" "$http" "$admin"; do
  if taken "$address"; then
    echo "$address is in use by another program; choose other addresses, for example:" >&2
    echo "  GRPC=127.0.0.1:19191 HTTP=127.0.0.1:19981 ADMIN=127.0.0.1:19982 make run" >&2
    exit 1
  fi
done

"$koalagate" serve --rules examples/gateway.conf \
  --grpc-addr "$grpc" --http-addr "$http" --admin-addr "$admin" &
readonly server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true' EXIT
trap 'exit 0' INT TERM

for ((tries = 0; tries < 100; tries++)); do
  if taken "$http" && taken "$admin"; then
    break
  fi
  if ! kill -0 "$server" 2>/dev/null; then
    echo "koalagate has exited; see its last lines above" >&2
    exit 1
  fi
  sleep 0.1
done

cat <<HELP

koalagate is running. Four comments in 90 seconds are allowed; paste this, and the
fifth returns a 429 with Retry-After:

  for i in 1 2 3 4 5; do curl -si http://$http/v1/forward-auth -H 'X-User-Id: ann' -H 'X-Forwarded-For: 203.0.113.7' -H 'X-Forwarded-Method: POST' -H 'X-Forwarded-Uri: /api/comments' | grep -iE '^(HTTP|RateLimit:|Retry-After)'; done

The same rule through Koala's API, for another user:

  curl -s 'http://$http/rule/take?act=comment&uid=bob'

The rules are in examples/gateway.conf: change the count of rule 201, save, and
run curl again. ^C stops koalagate.

HELP
wait "$server"
