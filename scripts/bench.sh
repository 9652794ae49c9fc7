#!/bin/sh
# make bench: every benchmark, or the one named. Figures are ratios of one run on one machine; what else it does
# meanwhile shows in the load that is printed before and after.
# Use: scripts/bench.sh [import|open|page_tables|screen|diff|images|filter|per_action|compute|trace|size|software_mali]
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

load() {
    echo "$1: load $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) cores"
}

# The executor as a bare executable: what of it is loaded into memory.
size_of_bare() {
    cargo build --locked --package replay-bare --profile bare
    echo "bare executable: text, data and what starts as zero, in bytes"
    size "${CARGO_TARGET_DIR:-target}/bare/replay-bare"
}

# Only the crates that have benchmarks are built: the optimised build of all the others takes long.
measure() {
    case $1 in
        import | open | page_tables | screen | diff | images) cargo bench --locked --package trace-core --bench "$1" ;;
        filter) cargo bench --locked --package trace-query --bench "$1" ;;
        per_action) cargo bench --locked --package replay-core --bench "$1" ;;
        compute | trace) cargo bench --locked --package device-mali --bench "$1" ;;
        size) size_of_bare ;;
        # Against Mesa's GLES driver for processors, with whatever of it the machine has (Debian: libegl1).
        software_mali) LIBGL_ALWAYS_SOFTWARE=1 cargo bench --locked --package gles-programs --bench "$1" ;;
        *)
            echo "make bench: no benchmark '$1' (there are import, open, page_tables, screen, diff, images, filter, per_action, compute, trace, size, software_mali)" >&2
            exit 2
            ;;
    esac
}

load before
for name in ${1:-import open page_tables screen diff images filter per_action compute trace size software_mali}; do
    echo "== $name"
    measure "$name"
done
load after
