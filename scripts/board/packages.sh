#!/bin/sh
# The guest's packages: Debian's current kernel and busybox for ARCH, fetched with apt, unpacked and not installed.
# Use: scripts/board/packages.sh x86_64|arm64
# Leaves kernel, modules and busybox in .board/ARCH. A second call finds them there; `make clean-board` removes them.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. scripts/board/machines.sh
. scripts/board/apt.sh
arch=${1:-}
machine "$arch"

# What the board stands on, and the stock drivers of its devices, for who records them.
modules="virtio_pci virtio_net virtio_console 9p 9pnet_virtio uio_pci_generic vfio_pci vfio_iommu_type1"
drivers="radeonfb aty128fb radeon bochs virtio-gpu igb"
want="5 $modules $drivers"
if [ "$(cat "$images/made" 2>/dev/null)" = "$want" ]; then exit 0; fi

# shellcheck disable=SC2046,SC2086 # lists of words
{
    read_installed xz-utils
    need_packages "to unpack the board's kernel and its modules" xz-utils
}
install_packages

mkdir -p "$board_dir"
work=$(mktemp -d "$board_dir/unpack.XXXXXX")
trap 'rm -rf "$work"' EXIT

start=$(date +%s)
private_apt "$work/apt" "$debian"
# The release's package without a version depends on the current kernel's.
apt_asked apt-cache show --no-all-versions "linux-image-$debian"
kernel=$(sed -n 's/^Depends:.*\(linux-image-[0-9][^ ,(]*\).*/\1/p' "$work/apt/out")
[ -n "$kernel" ] || die "linux-image-$debian of $main names no kernel"
mkdir "$work/made"
fetch_and_unpack "$work/root" "$kernel" busybox-static
version=${kernel#linux-image-}
from=$work/root/lib/modules/$version
[ -d "$from" ] || from=$work/root/usr/lib/modules/$version
[ -d "$from/kernel" ] || die "$kernel holds no modules where they are expected"

# The kernel as it runs: the machine in the box is emulated, and would take seconds to unpack it. A bzImage says where
# what it unpacks lies.
image=$work/root/boot/vmlinuz-$version
cp "$image" "$work/made/kernel"
if [ "$arch" = x86_64 ]; then
    number() { od -An -t"u$2" -j"$1" -N"$2" "$image" | tr -d ' '; }
    at=$((($(number 497 1) + 1) * 512 + $(number 584 4)))
    # Behind the packed bytes stands how many they are unpacked.
    bytes=$(($(number 588 4) - 4))
    if tail -c +$((at + 1)) "$image" | head -c "$bytes" | xz -dc >"$work/vmlinux" 2>/dev/null &&
        [ "$(head -c 4 "$work/vmlinux" | tail -c 3)" = ELF ]; then
        mv "$work/vmlinux" "$work/made/kernel"
    fi
fi

# Modules, and what they depend on as the modules themselves say, with the indexes that modprobe reads.
modules_in=$work/made/modules/lib/modules/$version
mkdir -p "$modules_in"
find "$from/kernel" -name '*.ko*' >"$work/all"
file_of() { grep -m 1 -E "/$(printf %s "$1" | sed 's/[-_]/[-_]/g')\.ko(\.xz)?\$" "$work/all" || true; }
depends() { tr '\0' '\n' <"$modules_in/$1.ko" | sed -n 's/^depends=//p' | tr ',-' ' _'; }
add() {
    # What is not there is built into this kernel, or no part of it (arm64 has no radeonfb).
    module=$(file_of "$1")
    [ -n "$module" ] && [ ! -e "$modules_in/$1.ko" ] || return 0
    case $module in
        *.xz) xz -dc "$module" >"$modules_in/$1.ko" ;;
        *) cp "$module" "$modules_in/$1.ko" ;;
    esac
    for needed in $(depends "$1"); do add "$needed"; done
}
# What is loaded last stands first.
before() { for needed in $(depends "$1"); do printf '%s.ko\n' "$needed"; before "$needed"; done; }
for module in $modules; do add "$(printf %s "$module" | tr - _)"; done
(cd "$modules_in" && ls) >"$work/made/stay"
for module in $drivers; do add "$(printf %s "$module" | tr - _)"; done
for module in "$modules_in"/*.ko; do
    name=$(basename "$module" .ko)
    # Of a module that several need the last place counts: before all of them.
    printf '%s.ko:%s\n' "$name" "$(before "$name" | tac | awk '!seen[$0]++' | tac | sed 's/^/ /' | tr -d '\n')"
done >"$modules_in/modules.dep"
# Which of them the kernel would take for a device.
for module in "$modules_in"/*.ko; do
    tr '\0' '\n' <"$module" | sed -n "s/^alias=\(.*\)/alias \1 $(basename "$module" .ko)/p"
done >"$modules_in/modules.alias"
printf '%s\n' "$version" >"$work/made/version"
cp "$work/root/bin/busybox" "$work/made/busybox" 2>/dev/null || cp "$work/root/usr/bin/busybox" "$work/made/busybox"
printf '%s\n' "$want" >"$work/made/made"
rm -rf "$images"
mv "$work/made" "$images"
say "unpacked $kernel and busybox-static for $debian into $images ($(du -sh "$images" | cut -f1), $(took "$start"))"
