#!/bin/sh
# make bench: every benchmark, or the one named. Figures are ratios of one run on one machine; what else it does
# meanwhile shows in the load that is printed before and after.
# Use: scripts/bench.sh [import|open|scale|page_tables|xref|state|screen|diff|images|filter|event_table|per_action|compute|trace|size|channel_plan|cuda_hooks|software_mali|campaign]
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

# DuckDB and polars as yardsticks, in a Python environment of its own; where PyPI is not reached the filter is measured without.
with_duckdb() {
    env="${CARGO_TARGET_DIR:-target}/duckdb"
    if ! "$env/bin/python" -c 'import duckdb, numpy, polars' 2>/dev/null; then
        rm -rf "$env"
        python3 -m venv "$env" &&
            "$env/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
                duckdb==2.0.0 numpy==2.4.6 polars==2.1.0 || return 0
    fi
    KINESCOPE_DUCKDB="$(cd "$env" && pwd)/bin/python"
    export KINESCOPE_DUCKDB
}

# Only the crates that have benchmarks are built: the optimised build of all the others takes long.
measure() {
    case $1 in
        import | state) cargo bench --locked --package trace-import --bench "$1" ;;
        open | page_tables | xref | screen | diff | images) cargo bench --locked --package trace-core --bench "$1" ;;
        # The window, optimised: its first build takes a quarter of an hour.
        scale) cargo bench --locked --package kinescope --bench "$1" ;;
        filter | event_table)
            with_duckdb
            cargo bench --locked --package trace-query --bench "$1" ;;
        # The second one needs nats-server, and is skipped without it.
        campaign)
            cargo bench --locked --package kinescope-campaign --bench "$1"
            cargo bench --locked --package kinescope-worker --bench broker ;;
        per_action) cargo bench --locked --package replay-core --bench "$1" ;;
        compute | trace) cargo bench --locked --package device-mali --bench "$1" ;;
        size) size_of_bare ;;
        channel_plan) cargo bench --locked --package replay-nvidia --bench "$1" ;;
        # The recorder's library in a process with a driver that does nothing, which the benchmark builds with cc.
        cuda_hooks)
            cargo build --locked --release --package kinescope-cuda
            cargo bench --locked --package kinescope-cuda --bench "$1" ;;
        # Against Mesa's GLES driver for processors, with whatever of it the machine has (Debian: libegl1).
        software_mali) LIBGL_ALWAYS_SOFTWARE=1 cargo bench --locked --package gles-programs --bench "$1" ;;
        *)
            echo "make bench: no benchmark '$1' (there are import, open, scale, page_tables, xref, state, screen, diff, images, filter, event_table, per_action, compute, trace, size, channel_plan, cuda_hooks, software_mali, campaign)" >&2
            exit 2
            ;;
    esac
}

load before
for name in ${1:-import open scale page_tables xref state screen diff images filter event_table per_action compute trace size channel_plan cuda_hooks software_mali campaign}; do
    echo "== $name"
    measure "$name"
done
load after
