#!/bin/sh
# make board: a machine in QEMU with graphics devices and the agent that owns them, to connect to like to any board.
# Use: scripts/board.sh          In the environment, each may be left out or empty:
#   ARCH     x86_64 (default) or arm64
#   DEVICES  QEMU's devices, separated by spaces (default: ati-vga,model=rv100 virtio-gpu-pci edu)
#   PORT     this machine's port that leads to the agent (default: 7117); other machines cannot reach it
#   MEM      the board's memory in megabytes (default: 192; 256 with an IOMMU, where each device has memory for DMA)
#   IOMMU    yes: the devices lie behind one, as they do on most machines (Intel's, or Arm's SMMUv3)
#   DRIVERS  yes: the stock Linux drivers of the devices are there, for who records them
#   SHARE    a folder of this machine, /host in the board: a shell in the board takes the place of the agent
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/board/machines.sh
arch=${ARCH:-x86_64}
port=${PORT:-7117}
mem=${MEM:-192}
[ "${IOMMU:-}" != yes ] || mem=${MEM:-256}
machine "$arch"
case $port in '' | *[!0-9]*) die "PORT=$port: not a port (expected a number from 1 to 65535)" ;; esac
[ "$port" -ge 1 ] && [ "$port" -le 65535 ] || die "PORT=$port: not a port (expected a number from 1 to 65535)"
case $mem in '' | *[!0-9]*) die "MEM=$mem: not a size (expected megabytes, $least_mem or more)" ;; esac
[ "$mem" -ge "$least_mem" ] || die "MEM=$mem: too little, $arch needs $least_mem MB to boot"

# Known before anything is built. The kernel's table has ports in hexadecimal; 0A is a listener.
taken=$(printf ':%04X 0A' "$port")
if cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v t="$taken" '{ n = split($2, a, ":"); if (":" a[n] " " $4 == t) { found = 1 } } END { exit !found }'; then
    die "another program uses port $port: end it, or choose another port with PORT=N"
fi
scripts/board/images.sh "$arch"

case ${IOMMU:-} in '' | no) IOMMU="" ;; yes) ;; *) die "IOMMU=$IOMMU: expected yes or no" ;; esac
devices=${DEVICES:-$default_devices}
# QEMU's virtio devices bypass an IOMMU by default.
if [ "$IOMMU" = yes ] && [ -z "${DEVICES:-}" ]; then
    devices=$(echo "$devices" | sed 's/virtio-gpu-pci/&,iommu_platform=on/')
fi
set --
for device in $devices; do set -- "$@" -device "$device"; done
if [ -n "${SHARE:-}" ]; then
    mkdir -p "$SHARE"
    mem=${MEM:-384}
    say "starting $arch with Linux $(cat "$images/version"), ${mem} MB, a shell, and: $devices"
    say "$SHARE is /host in the board; \`exit\` or Ctrl-C ends the board"
    export IOMMU MEM="$mem" APPEND="board.shell=1 quiet"
    exec scripts/board/qemu.sh "$arch" "$@" -virtfs "local,path=$SHARE,mount_tag=host,security_model=none" \
        -chardev stdio,id=serial,signal=on -serial chardev:serial
fi
say "starting $arch with Linux $(cat "$images/version"), ${mem} MB${IOMMU:+, an IOMMU}, and: $devices"
say "when it prints that pairing is open, run in another terminal:  kinescope pair 127.0.0.1:$port box"
say "that terminal and this one show a code: compare them and answer y on both ends"
say "then:  kinescope targets     Ctrl-C ends the board"
export IOMMU MEM="$mem" NET="hostfwd=tcp:127.0.0.1:$port-:7117" APPEND="board.port=$port quiet"
exec scripts/board/qemu.sh "$arch" "$@" -chardev stdio,id=serial,signal=on -serial chardev:serial
