#!/bin/sh
# The agent for a board in a box and for packages: one static executable, built by the project's own toolchain
# where that has the standard library for it.
# Use: scripts/board/agent.sh x86_64|arm64 [PROFILE]     (default profile: board)
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. scripts/board/machines.sh
machine "${1:-}"
profile=${2:-board}
need_cargo

packages=$BUILD_PACKAGES
[ "$1" = x86_64 ] || packages="$packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
# shellcheck disable=SC2086 # lists of words
{
    read_installed $packages
    need_packages "to build the board's agent (a linker for its machine)" $packages
}
install_packages

# The standard library for that machine is a part of the toolchain that rustup adds. Where rustup cannot, or is not
# there, Debian's own compiler makes the agent: unpacked beside the board's kernel, so that `rustc` stays what it is here.
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$rust" ]; then
    say "missing, to build the board's agent: Rust's standard library for $rust; adding it with rustup"
    if ! timeout 300 rustup target add "$rust" >/dev/null 2>&1; then
        say "rustup cannot add it; taking Debian's Rust compiler (rustc-web), unpacked and not installed"
        scripts/board/debian-rust.sh "$debian"
        export RUSTC="$board_dir/rust-$debian/rustc"
    fi
fi

start=$(date +%s)
# --target keeps the flags away from build scripts, which run here.
export RUSTFLAGS="-C target-feature=+crt-static"
[ "$1" = x86_64 ] || export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
cargo build --locked --quiet --package kinescope-agent --profile "$profile" --target "$rust"
[ "$(took "$start")" = "0 s" ] || say "built the agent for $1 in $(took "$start")"
