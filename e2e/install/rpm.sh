#!/usr/bin/env bash
# The life of the package for rpm on a machine with systemd: installed by the commands of its
# page, used, upgraded and removed. boot.sh runs it; /exchange has old.rpm and new.rpm, the
# commands of the page in pages.sh, steps.sh, and the path of rpm in rpm.
set -euo pipefail
# shellcheck source=e2e/install/steps.sh
. /exchange/steps.sh
program=$(cat /exchange/rpm)
# The machine is no distribution with rpm: nothing is in rpm's database, not even systemd.
rpm() { "$program" --dbpath /var/lib/rpm "$@"; }
dnf() {
  case $1 in
    install) rpm --install --nodeps "$2" ;;
    upgrade) rpm --upgrade --nodeps "$2" ;;
    remove) rpm --erase "$2" ;;
  esac
}
export program
export -f rpm dnf

# Distributions with rpm enable no service of their own accord.
mkdir -p /etc/systemd/system-preset
echo 'disable *' >/etc/systemd/system-preset/99-default.preset

step "the commands of docs/install/rpm.md run as written"
mkdir /pages
cd /pages
cp /exchange/old.rpm koalagate-0.1.0-1.x86_64.rpm
sed -i 's/enable --now/is-enabled koalagate >\/pages\/before || true; systemctl enable --now/' /exchange/pages.sh
bash -ex /exchange/pages.sh </dev/null || fail "the commands of the page"
cd /
want disabled cat /pages/before # a package for rpm does not start services
want active systemctl is-active koalagate
want 0.1.0 koalagate --version
for status in 200 200 200 200 429; do want "$status" comment ann; done

step "the files are rpm's, and the service runs as its user"
rpm --verify --nodeps koalagate || fail "rpm does not find what it has installed"
want koalagate stat -c %U "/proc/$(property MainPID)"
want '750 koalagate' stat -c '%a %U' /var/lib/koalagate
man -w koalagate koalagate-serve >/dev/null
koalagate test /usr/share/doc/koalagate/examples /usr/share/doc/koalagate/examples/first-limit

step "upgrade: the service restarts, and changed configuration files stay"
sed -i 's/count=4\]/count=5]/' /etc/koalagate/rules.d/gateway.conf
before=$(property MainPID)
dnf upgrade /exchange/new.rpm
eventually 0.2.0 admin version
[[ $(property MainPID) != "$before" ]] || fail "the old program still runs"
want count=5 cat /etc/koalagate/rules.d/gateway.conf
want enabled systemctl is-enabled koalagate

step "a stopped service stays stopped"
systemctl stop koalagate
rpm --upgrade --nodeps --force /exchange/new.rpm
want inactive systemctl is-active koalagate
systemctl start koalagate
koalagate healthcheck || fail "not ready"

step "remove: the service stops; state, logs, the user and changed files stay"
dnf remove koalagate
want inactive systemctl is-active koalagate
[[ ! -e /usr/bin/koalagate && ! -e /usr/lib/systemd/system/koalagate.service ]] || fail "the program is left"
[[ ! -L /etc/systemd/system/multi-user.target.wants/koalagate.service ]] || fail "the service is still enabled"
test -d /var/lib/koalagate
test -d /var/log/koalagate
want count=5 cat /etc/koalagate/rules.d/gateway.conf.rpmsave
getent passwd koalagate >/dev/null

step "done"
