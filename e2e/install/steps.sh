#!/usr/bin/env bash
# What the scripts about packages share: they source it in the copy of the machine that boot.sh
# makes.
export SYSTEMD_PAGER='' PATH=/usr/sbin:/usr/bin:/sbin:/bin

step() { echo "=== $*"; }
fail() {
  echo "FAILED: $*"
  systemctl status koalagate --no-pager --full || true
  journalctl --unit koalagate --no-pager | tail -40
  exit 1
}
# want TEXT COMMAND…: the output of the command contains the text.
want() {
  local text=$1 out
  shift
  out=$("$@" 2>&1) || true
  [[ $out == *"$text"* ]] || fail "$*: want $text, got: $out"
}
property() { systemctl show koalagate --property "$1" --value; }
# eventually TEXT COMMAND…: as want, within ten seconds.
eventually() {
  local tries
  for ((tries = 0; tries < 100; tries++)); do
    [[ $("${@:2}" 2>&1 || true) == *"$1"* ]] && return
    sleep 0.1
  done
  want "$@"
}
admin() { curl -s "http://127.0.0.1:9982/$1"; }
# A comment by a user; prints the status.
comment() {
  curl -s -o /dev/null -w '%{http_code}' 'http://127.0.0.1:9981/v1/forward-auth' -H "X-User-Id: $1" \
    -H 'X-Forwarded-For: 203.0.113.7' -H 'X-Forwarded-Method: POST' -H 'X-Forwarded-Uri: /api/comments'
}
# The pages call it; the scripts run as root.
sudo() { "$@"; }
export -f sudo
