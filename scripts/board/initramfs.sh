#!/bin/sh
# The initramfs of a board in a box: busybox, modules, the agent, and the first program.
# Use: scripts/board/initramfs.sh x86_64|arm64 AGENT
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. scripts/board/machines.sh
machine "${1:-}"
agent=${2:-}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/bin" "$(dirname "$initramfs")"
cp -r "$images/modules/lib" "$root/lib"
cp "$images/busybox" "$root/bin/busybox"
cp "$agent" "$root/bin/kinescope-agent"
# A dynamic executable of this machine brings its libraries.
if ldd "$agent" >"$root/list" 2>/dev/null; then
    sed -n 's/.*=> \(\/[^ ]*\) (0x.*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (0x.*/\1/p' "$root/list" | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
fi
# Nobody reads names there, and the board keeps the file in its memory.
if command -v "$strip" >/dev/null 2>&1; then "$strip" "$root/bin/kinescope-agent"; fi
rm -f "$root/list"
cp scripts/board/init "$root/init"
cp scripts/board/commands "$root/commands"
chmod 755 "$root/init" "$root/commands" "$root"/bin/*
# Not packed: the emulated machine would unpack it, which takes longer than reading it.
pack() { (cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0) >"$1.new" && mv "$1.new" "$1"; }
pack "$initramfs_with_drivers"
# What only recordings of stock drivers need fills memory that a replay may want.
for module in "$root"/lib/modules/*/*.ko; do
    grep -qx "$(basename "$module")" "$images/stay" || rm "$module"
done
pack "$initramfs"
