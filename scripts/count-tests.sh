# How the workspace's tests are built, run and counted. Sourced by test.sh and test-full.sh, not run. POSIX sh.

# One build for programs, the recorders' libraries and tests: what the tests' own dependencies ask of shared crates would
# otherwise build those crates twice. The bare executable and the fuzz targets' programs need other flags.
build_for_tests() {
    cargo build --locked --workspace --exclude replay-bare --exclude fuzz-targets --exclude gles-programs \
        --lib --bins --tests
}

# What run_tests and run_again write, and where the programs are that tests start: no test builds them again.
tests=target/cargo-test.log
KINESCOPE_BIN_DIR=$(pwd)/target/debug; export KINESCOPE_BIN_DIR

# run_tests TIER [NAME]: all tests of the tier `usual` or `long`, or those whose names contain NAME. The output of tests
# that pass is kept: it names those that were skipped.
# run_again: the tests in target/failed-tests, one after another.
# count_passed, count_failed, list_failed: of the last run_tests; list_failed comes first and writes target/failed-tests.
if cargo nextest --version >/dev/null 2>&1; then
    run_tests() {
        case $1 in long) which=only ;; *) which=default ;; esac
        cargo nextest run --workspace --locked --success-output immediate --run-ignored $which ${2:+"$2"} >$tests 2>&1
    }
    run_again() {
        cargo nextest run --workspace --locked --test-threads 1 --run-ignored all \
            -E "$(sed 's/.*/test(=&)/' target/failed-tests | paste -sd '|')"
    }
    count_passed() { sed -n 's/^ *Summary \[.*\] .* \([0-9]*\) passed.*/\1/p' $tests | tail -n 1; }
    count_failed() { grep -c . target/failed-lines; }
    list_failed() {
        sed -n '/^ *Summary \[/,$p' $tests | grep -E '^ *(FAIL|TIMEOUT|ABORT|LEAK-FAIL|SIG[A-Z]+) \[' | sort -u >target/failed-lines
        sed 's/.* //' target/failed-lines | sort -u >target/failed-tests
    }
else
    say "no cargo-nextest here: tests run program by program, which takes longer (cargo install --locked cargo-nextest)"
    run_tests() {
        case $1 in long) which=--ignored ;; *) which= ;; esac
        # shellcheck disable=SC2086 # no word is no argument
        cargo test --workspace --locked --no-fail-fast -- --show-output $which ${2:-} >$tests 2>&1
    }
    run_again() {
        while read -r test; do
            cargo test --workspace --locked -- --include-ignored --exact "$test" --test-threads=1 </dev/null || return 1
        done <target/failed-tests
    }
    sum() { sed -n "s/^test result: .* \([0-9]*\) $1;.*/\1/p" $tests | awk '{ n += $1 } END { print n + 0 }'; }
    count_passed() { sum passed; }
    count_failed() { sum failed; }
    list_failed() { sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' $tests | sort -u >target/failed-tests; }
fi
