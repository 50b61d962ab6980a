#!/bin/sh
# The guest's first process: makes the file tree usable, runs one command, powers off.
#
# It runs from a boot folder, the host kernel process's working directory, because the kernel's
# command line must be the same in every run (the guest's randomness is made from it) and knows
# no blanks: init=/proc/self/cwd/init. In it are `folder`, a link to the run folder, and `words`,
# quoted for a shell, which sets
#   status   the file in the run folder that receives the command's exit code
#   python   an interpreter, which powers the guest off
# and the command as the positional parameters.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH HOME=/root TERM=dumb LC_ALL=C.UTF-8

off() {
    # Everything written is on the host before the guest is gone.
    sync
    exec "${python:-python3}" -ISc 'import ctypes; ctypes.CDLL(None).reboot(0x4321FEDC)'
}
fail() {
    echo "giveway-init: $*" >&2
    off
}

# Until the guest has a /proc of its own, this is the host's.
boot=$(readlink -f /proc/self/cwd) || fail "no boot folder"
. "$boot/words" || fail "no $boot/words"

mount -t proc proc /proc || fail "no /proc"
mount -t sysfs sysfs /sys || fail "no /sys"
mkdir -p /dev/pts /dev/shm || fail "no /dev"
mount -t devpts -o ptmxmode=0666 devpts /dev/pts || fail "no /dev/pts"
mount -t tmpfs tmpfs /dev/shm || fail "no /dev/shm"
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mount -t tmpfs -o mode=755 tmpfs /run || fail "no /run"
mkdir -p /run/netns /run/lock /run/overlay/upper /run/overlay/work
# /tmp is writable, in memory only, and still shows the host's: a checkout may lie there.
mount -t overlay -o lowerdir=/tmp,upperdir=/run/overlay/upper,workdir=/run/overlay/work \
    overlay /tmp || fail "no /tmp"
# At a place of one name in every run: nothing in the guest may depend on the folder's own. And
# through a link with a plain name: mount(8) would split the folder's own at commas.
mkdir /run/giveway
mount -t hostfs -o "$boot/folder" none /run/giveway || fail "no run folder $boot/folder"
cd /run/giveway || fail "no run folder"
ip link set lo up || fail "no loopback"

"$@"
code=$?
echo "$code" > "$status.part" && mv "$status.part" "$status"
cd /
off
