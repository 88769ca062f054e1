#!/usr/bin/env bash
# The life of the Debian package on a machine with systemd: installed, used, reloaded,
# upgraded, removed and purged. boot.sh runs it; /exchange has old.deb and new.deb, the
# commands of the pages in pages.sh, and steps.sh.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
# shellcheck source=e2e/install/steps.sh
. /exchange/steps.sh

step "the commands of docs/install/deb.md and of the runbooks run as written"
mkdir /pages
cd /pages
cp /exchange/old.deb koalagate_0.1.0_amd64.deb
cp /exchange/rules.conf rules.conf
echo secret >redis-password
bash -ex /exchange/pages.sh </dev/null || fail "the commands of the pages"
want '400 koalagate' stat -c '%a %U' /etc/koalagate/redis-password
cd /
apt-get purge --yes koalagate
[[ ! -e /etc/koalagate/koalagate.yaml ]] || fail "apt purge leaves the settings"
rm -rf /etc/koalagate

step "install: the service runs, and is ready when the installation ends"
dpkg -i /exchange/old.deb
koalagate healthcheck || fail "not ready"
want active systemctl is-active koalagate
want enabled systemctl is-enabled koalagate
want 0.1.0 koalagate --version
for user in 200 200 200 200 429; do want "$user" comment ann; done

step "the unit confines the process"
pid=$(property MainPID)
status=$(cat "/proc/$pid/status")
for line in 'CapBnd:	0000000000000000' 'CapEff:	0000000000000000' 'NoNewPrivs:	1' 'Seccomp:	2'; do
  [[ $status == *"$line"* ]] || fail "want $line in $status"
done
want koalagate stat -c %U "/proc/$pid"
# systemd cannot exceed the limit of this machine.
files=$(ulimit -H -n)
[[ $files != unlimited && $files -lt 65536 ]] || files=65536
want " $files " grep 'open files' "/proc/$pid/limits"
want 'OK :-)' systemd-analyze security koalagate --no-pager
want '750 koalagate' stat -c '%a %U' /var/lib/koalagate
want '750 koalagate' stat -c '%a %U' /var/log/koalagate
man -w koalagate koalagate-serve >/dev/null
for page in /usr/share/man/man1/koalagate*; do
  warnings=$(LC_ALL=C.UTF-8 man --warnings=w --local-file "$page" 2>&1 >/dev/null)
  [[ -z $warnings ]] || fail "$page: $warnings"
done
test -s /usr/share/bash-completion/completions/koalagate
for file in /usr/share/doc/koalagate/examples/*.conf; do
  koalagate check "$file"
done
koalagate test /usr/share/doc/koalagate/examples /usr/share/doc/koalagate/examples/first-limit

step "reload: changed rules apply, and invalid ones do not"
sed -i 's/count=4\]/count=5]/' /etc/koalagate/rules.d/gateway.conf
systemctl reload koalagate
eventually '"generation": 2' admin readyz
want 200 comment ann
want 429 comment ann
echo '[rules' >/etc/koalagate/rules.d/broken.conf
systemctl reload koalagate
eventually broken.conf admin readyz
want active systemctl is-active koalagate

step "restart with invalid rules: the kept rules apply"
systemctl restart koalagate
eventually restored_from admin readyz
rm /etc/koalagate/rules.d/broken.conf
systemctl reload koalagate

step "the environment overrides the file; the decision log is writable"
echo KOALAGATE_DECISION_LOG=/var/log/koalagate/decisions.jsonl >>/etc/default/koalagate
systemctl restart koalagate
want 200 comment bob
eventually '"door"' cat /var/log/koalagate/decisions.jsonl

step "the commands of an operator read the settings of the service, and find its token"
sed -i 's/^admin_addr: .*/admin_addr: 127.0.0.1:9983/' /etc/koalagate/koalagate.yaml
systemctl restart koalagate
want ok koalagate healthcheck
want "rule 201" koalagate why uid=ann
want "reset rule 201 for act=comment uid=ann" koalagate reset --rule 201 uid=ann
sed -i 's/^admin_addr: .*/admin_addr: 127.0.0.1:9982/' /etc/koalagate/koalagate.yaml
systemctl restart koalagate

step "upgrade: the service restarts, and changed configuration files stay"
before=$(property MainPID)
dpkg -i --force-confdef --force-confold /exchange/new.deb
koalagate healthcheck || fail "not ready after the upgrade"
[[ $(property MainPID) != "$before" ]] || fail "the old program still runs"
want 0.2.0 admin version
want count=5 cat /etc/koalagate/rules.d/gateway.conf
want decisions.jsonl cat /etc/default/koalagate

step "a disabled service stays disabled"
systemctl disable --now koalagate
dpkg -i --force-confold /exchange/new.deb
want disabled systemctl is-enabled koalagate
systemctl enable --now koalagate

step "invalid settings: the service fails, and does not restart in a loop"
echo KOALAGATE_LOG_LEVEL=nonsense >>/etc/default/koalagate
! systemctl restart koalagate || fail "started with invalid settings"
want failed systemctl is-failed koalagate
want 2 property ExecMainStatus
want 0 property NRestarts
want 'want one of debug, info, warn, error' journalctl --unit koalagate --no-pager
sed -i '/LOG_LEVEL/d' /etc/default/koalagate
systemctl restart koalagate

step "stop: the service drains"
systemctl stop koalagate
want success property Result
want draining journalctl --unit koalagate --no-pager
systemctl start koalagate

step "remove: the service stops, and configuration and state stay"
dpkg -r koalagate
want inactive systemctl is-active koalagate
test -s /etc/koalagate/koalagate.yaml
test -d /var/lib/koalagate
[[ ! -e /usr/bin/koalagate ]] || fail "the program is left"

step "purge: only the user stays"
dpkg -P koalagate
for path in /etc/koalagate /etc/default/koalagate /var/lib/koalagate /var/log/koalagate /run/koalagate \
  /lib/systemd/system/koalagate.service /etc/systemd/system/koalagate.service; do
  [[ ! -e $path && ! -L $path ]] || fail "$path is left"
done
getent passwd koalagate >/dev/null

step "done"
