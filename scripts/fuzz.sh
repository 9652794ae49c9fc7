#!/bin/sh
# make fuzz: run one fuzz target, or each in turn, under AddressSanitizer for some seconds (default 60).
# Use: scripts/fuzz.sh [TARGET] [SECONDS]
# Needs g++ (libFuzzer is C++). libFuzzer's instrumentation is not stable: a nightly toolchain is used where there is
# one, and otherwise the installed toolchain with unstable features allowed; it brings AddressSanitizer's library as well.
# What it finds is written to target/fuzz/artifacts/TARGET; copy it to fuzz/corpus/TARGET once it is mended.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
target=${1:-}
seconds=${2:-}
seconds=${seconds:-60}
need_cargo
if command -v rustup >/dev/null 2>&1 && rustup run nightly cargo --version >/dev/null 2>&1; then
    with="rustup run nightly"
else
    with="env RUSTC_BOOTSTRAP=1"
fi
# shellcheck disable=SC2086 # lists of words
{
    read_installed $BUILD_PACKAGES g++
    need_packages "to build libFuzzer" $BUILD_PACKAGES g++
}
install_packages

known=$(ls fuzz/fuzz_targets | sed -n 's/\.rs$//p')
if [ -n "$target" ] && [ ! -e "fuzz/fuzz_targets/$target.rs" ]; then
    die "no fuzz target '$target' (expected one of:" $known ")"
fi
host=$($with rustc -vV | sed -n 's/^host: //p')
# --target keeps these flags away from build scripts.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address --cfg fuzzing -Cdebug-assertions" \
    $with cargo build --release --locked --quiet --target "$host" --target-dir target/fuzz/build \
    -p fuzz-targets --features libfuzzer ${target:+--bin "fuzz_$target"}

status=0
for t in ${target:-$known}; do
    mkdir -p "target/fuzz/corpus/$t" "target/fuzz/artifacts/$t" "fuzz/corpus/$t"
    say "fuzzing $t for $seconds s"
    # New inputs go to the first folder; the committed seeds are only read.
    nice -n 10 "target/fuzz/build/$host/release/fuzz_$t" "target/fuzz/corpus/$t" "fuzz/corpus/$t" \
        -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=1024 -timeout=20 -max_len=131072 -print_final_stats=1 \
        -artifact_prefix="target/fuzz/artifacts/$t/" >"target/fuzz/$t.log" 2>&1 || {
        status=1
        grep -E 'panicked|ERROR|SUMMARY|Test unit written' "target/fuzz/$t.log" | head -n 10
        say "FOUND a failure in $t: target/fuzz/artifacts/$t, full output in target/fuzz/$t.log"
        continue
    }
    sed -n 's/^stat::number_of_executed_units: */  executions: /p; s/^stat::peak_rss_mb: */  peak MB: /p' "target/fuzz/$t.log"
    grep -E 'cov: ' "target/fuzz/$t.log" | tail -n 1 | sed 's/^/  /'
done
exit $status
