#!/bin/sh
# Becomes QEMU with a board in a box that is prepared. What is special comes by the environment:
#   MEM (megabytes), NET (options of the user-mode network), HUGEPAGES (of 2 MB, for DMA), APPEND (kernel arguments),
#   DRIVERS=yes (stock drivers of the devices are there, to be recorded), IOMMU=yes (an IOMMU stands in front of the
#   devices); and options of QEMU as arguments.
# Use: scripts/board/qemu.sh x86_64|arm64 [QEMU-OPTION...]
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. scripts/board/machines.sh
arch=${1:-}
machine "$arch"
shift
[ "${DRIVERS:-}" != yes ] || initramfs=$initramfs_with_drivers
# The mask of its addresses is no fact that edu tells.
edu=""
case "$* " in
    *edu,*dma_mask=0xffffffffffff[!0-9a-f]*) edu="board.edu_bits=48" ;;
    *edu,*dma_mask=0xffffffff[!0-9a-f]*) edu="board.edu_bits=32" ;;
esac
# One emulated core without threads of its own: the same order of everything on every run.
front=""
case $arch${IOMMU:+-$IOMMU} in
    x86_64-yes)
        set -- -machine q35,kernel-irqchip=split -device intel-iommu,intremap=on -cpu qemu64,+rdrand -vga none "$@"
        front="intel_iommu=on"
        ;;
    # Interrupts that are messages go through the controller's own tables, as the kernel wants it of a machine whose
    # devices are given to programs.
    arm64-yes) set -- -machine virt,gic-version=3,its=on,iommu=smmuv3 -cpu cortex-a57 "$@" ;;
    x86_64*) set -- -machine pc -cpu qemu64,+rdrand -vga none "$@" ;;
    arm64*) set -- -machine virt -cpu cortex-a57 "$@" ;;
esac
exec "$qemu" -accel tcg,thread=single -smp 1 -m "${MEM:-192}" -display none -no-reboot -nodefaults -no-user-config \
    -kernel "$images/kernel" -initrd "$initramfs" \
    -append "console=$console loglevel=4 panic=-1 hugepages=${HUGEPAGES:-4} $front $edu ${APPEND:-}" \
    -netdev "user,id=net${NET:+,$NET}" -device virtio-net-pci,netdev=net,romfile= "$@"
