# Sets up the mount and network namespaces of a node, prints `up`, and holds them.
# $1: the node's folder
set -eu
cd "$1"
# Standard paths of kubelet, containerd, runc and CNI stay private.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/netns
for part in lib log; do
    mkdir "var-$part" "var-$part-work"
    mount -t overlay -o "lowerdir=/var/$part,upperdir=$1/var-$part,workdir=$1/var-$part-work" overlay "/var/$part"
done
# One disk that all nodes of the cluster share.
mkdir -p -m 1777 ../srv
mount --bind ../srv /srv
# kubelet insists on these settings, which the whole machine has only once. It finds them in files of the node's own.
while read -r setting value; do
    file="setting-$(echo "$setting" | tr / -)"
    echo "$value" > "$file"
    mount --bind "$file" "/proc/sys/$setting"
done <<SETTINGS
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
SETTINGS
echo 1 > /proc/sys/net/ipv4/ip_forward
echo up
exec sleep infinity
