# What boards in a box share: the two machines, where things are kept. Sourced after scripts/lib.sh, not run.

# Packages that were unpacked, kernels and initramfs. Worktrees may share one folder: KINESCOPE_BOARD_DIR.
board_dir=${KINESCOPE_BOARD_DIR:-$PWD/.board}
case $board_dir in /*) ;; *) board_dir=$PWD/$board_dir ;; esac

# machine ARCH: sets what differs between the two.
machine() {
    case $1 in
        x86_64)
            debian=amd64
            qemu=qemu-system-x86_64
            qemu_kind=x86
            rust=x86_64-unknown-linux-gnu
            strip=strip
            console=ttyS0
            least_mem=192
            default_devices="ati-vga,model=rv100 virtio-gpu-pci edu"
            ;;
        arm64)
            debian=arm64
            qemu=qemu-system-aarch64
            qemu_kind=arm
            rust=aarch64-unknown-linux-gnu
            strip=aarch64-linux-gnu-strip
            console=ttyAMA0
            least_mem=80
            # Its memory lies higher than the 28 bits of an address that edu takes by itself.
            default_devices="ati-vga,model=rv100 virtio-gpu-pci edu,dma_mask=0xffffffffffff"
            ;;
        *) die "ARCH=$1: no such board (expected x86_64 or arm64)" ;;
    esac
    images=$board_dir/$1
    # The agent is of this worktree, whoever the kernel is shared with.
    initramfs=${CARGO_TARGET_DIR:-target}/board-$1.cpio
    initramfs_with_drivers=${CARGO_TARGET_DIR:-target}/board-$1-drivers.cpio
}
