#!/bin/sh
# make bench: every benchmark, or the one named. Figures are ratios of one run on one machine.
# Use: scripts/bench.sh [NAME]
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
need_cargo
# shellcheck disable=SC2086 # lists of words
{
    read_installed $BUILD_PACKAGES
    need_packages "to build (a linker, C for a few crates, certificates for downloads)" $BUILD_PACKAGES
}
install_packages
if [ -n "${1:-}" ]; then
    exec cargo bench --locked --workspace --bench "$1"
fi
exec cargo bench --locked --workspace --benches
