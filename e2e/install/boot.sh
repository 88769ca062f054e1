#!/usr/bin/env bash
# Boots systemd as the first process of a copy of this machine, runs a script there, and
# ends. The copy is an overlay in memory: nothing of this machine changes. Run as root:
#
#   unshare --mount --pid --fork --cgroup --uts --ipc --net --kill-child e2e/install/boot.sh SCRIPT FOLDER
#
# The copy sees FOLDER as /exchange. The output of the script is FOLDER/log, and its exit
# code FOLDER/status.
set -euo pipefail
script=$1 folder=$2

mount --make-rprivate /
top=$(mktemp -d)
mount -t tmpfs tmpfs "$top"
root=$top/root
mkdir "$top/upper" "$top/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$root"
for at in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$at"; done
chmod 1777 "$root/tmp"
mkdir "$root/dev/shm" "$root/dev/pts"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
if [[ -d /sys/fs/cgroup/unified ]]; then
  mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
  mkdir "$root/sys/fs/cgroup/systemd" "$root/sys/fs/cgroup/unified"
  mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
else
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
fi
ip link set lo up

# No unit of this machine runs in the copy, and nothing there forbids to start services,
# as images of containers do.
rm -rf "$root"/etc/systemd/system/*.wants "$root/usr/sbin/policy-rc.d"
mkdir "$root/exchange"
mount --bind "$folder" "$root/exchange"
cp "$script" "$root/script"
cat >"$root/etc/systemd/system/script.service" <<UNIT
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash -c '/bin/bash /script; echo \$? >/exchange/status'
ExecStopPost=/bin/systemctl poweroff --force --force
StandardOutput=append:/exchange/log
StandardError=inherit
UNIT
cat >"$root/etc/systemd/system/script.target" <<UNIT
[Unit]
Requires=basic.target
Wants=script.service
After=basic.target
UNIT
# In a changed root directory (chroot), services could not have user namespaces.
mkdir "$root/before"
cd "$root"
pivot_root . before
umount --lazy /before
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=script.target
