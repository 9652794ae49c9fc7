#!/bin/sh
# Debian's Rust compiler (the one that its security archive keeps for browsers) with the standard library for this
# machine and for a Debian architecture, unpacked into .board and not installed.
# Use: scripts/board/debian-rust.sh ARCH        Leaves the program .board/rust-ARCH/rustc.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. scripts/board/machines.sh
. scripts/board/apt.sh
target=$1
to=$board_dir/rust-$target
[ ! -e "$to/rustc" ] || exit 0
here=$(dpkg --print-architecture)
mkdir -p "$board_dir"
work=$(mktemp -d "$board_dir/unpack.XXXXXX")
trap 'rm -rf "$work"' EXIT

start=$(date +%s)
# shellcheck disable=SC2046 # one word or two
private_apt "$work/apt" "$here" $([ "$here" = "$target" ] || echo "$target")
version=$(APT_CONFIG=$apt_dir/conf apt-cache policy rustc-web | sed -n 's/^  Candidate: \([0-9.]*\).*/\1/p')
want=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)
[ -n "$version" ] && [ "$(printf '%s\n%s\n' "$want" "$version" | sort -V | head -n 1)" = "$want" ] ||
    die "$main has no rustc-web of $want or later (but '$version'): add the standard library by hand, with rustup target add"
# What the compiler links beside its own library, where this machine lacks it.
apt_asked apt-get -q -s -o Dir::State::status=/var/lib/dpkg/status install --no-install-recommends "libstd-rust-web-${version%.*}:$here"
libraries=$(sed -n 's/^Inst \([^ ]*\) .*/\1/p' "$apt_dir/out")
# shellcheck disable=SC2086 # a list of words
fetch_and_unpack "$work/made" rustc-web libstd-rust-web-dev "libstd-rust-web-dev:$target" $libraries
rm -rf "$work/made/usr/share"
driver=$(find "$work/made/usr/lib" -name 'librustc_driver-*.so' | head -n 1)
[ -n "$driver" ] || die "rustc-web $version is not laid out as expected: it has no librustc_driver"
libs=$to${driver#"$work/made"}
printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "${libs%/*}" "$to/usr/bin/rustc" >"$work/made/rustc"
chmod +x "$work/made/rustc"
rm -rf "$to"
mv "$work/made" "$to"
say "unpacked Debian's Rust $version with the standard library for $target into $to ($(du -sh "$to" | cut -f1), $(took "$start"))"
