# Makes the root file system of a Debian with Python 3.11 in the folder $1.
# $2: the mirror of Debian; debootstrap's own where there is none
set -eu
debootstrap --variant=minbase --include=python3 bookworm "$@"
cd "$1"
# No container reads these.
rm -rf dev/* etc/hostname etc/resolv.conf var/cache/apt/* var/lib/apt/lists/* var/log/*
rm -rf usr/share/bash-completion usr/share/doc usr/share/info usr/share/lintian usr/share/locale usr/share/man
# Files of an image have no times, so Python must not compare them with its compiled modules.
chroot . python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3.11 /usr/lib/python3
