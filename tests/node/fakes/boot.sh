#!/bin/sh
# Turns this process, already in namespaces of its own, into process 1 of a make-believe node: a root of its own at $1, filled from
# the folder $2, with this machine's /usr below a writable layer, and nothing else of this machine.
set -eu
root=$1 seed=$2
read -r pid _ </proc/self/stat # the /proc still mounted is the outer one: this is our process id as the outside sees it
echo "$pid" >"$seed/../pid"

mount -t tmpfs -o mode=0755,size=768m node "$root"
cd "$root"
mkdir -p .usr/upper .usr/work usr etc var/log var/lib var/spool/slurmd run/lock tmp root opt proc sys dev home old
chmod 1777 tmp run/lock
mount -t overlay -o lowerdir=/usr,upperdir=.usr/upper,workdir=.usr/work usr usr
for name in bin sbin lib lib32 lib64 libx32; do
  if [ -e "/usr/$name" ]; then ln -s "usr/$name" "$name"; fi
done
ln -s ../run var/run
cp -a /etc/ld.so.cache etc/ 2>/dev/null || true
rm -f usr/bin/systemctl usr/bin/scontrol usr/bin/getent usr/bin/nvidia-imex usr/bin/nvidia-imex-ctl usr/sbin/slurmd usr/sbin/slurmstepd \
  usr/local/bin/scontrol
mount -t tmpfs -o mode=0755 dev dev
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin
ln -s /proc/self/fd/1 dev/stdout
ln -s /proc/self/fd/2 dev/stderr
mkdir dev/shm
mount -t tmpfs -o mode=0755 sys sys
cp -a "$seed/." .
mount -t proc proc proc
if [ -e fake/proc-devices ]; then mount --bind fake/proc-devices proc/devices; fi
hostname "$(cat etc/hostname)"
ip link set lo up
ip -batch fake/ip.batch
pivot_root . old
cd /
umount -l /old
rmdir /old
exec /fake/bin/manager </dev/null >/fake/manager.log 2>&1
