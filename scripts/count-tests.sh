# How the workspace's tests are built, run and counted. Sourced by test.sh and test-full.sh, not run. POSIX sh.

# The packages of the common build: all but the bare executable, which needs other flags, the readers of exports, whose
# crates take minutes to build, and the WebAssembly suite, whose crates ask wasmparser for more features than programs need.
common="--workspace --exclude replay-bare --exclude export-readers --exclude wasm-tests --exclude kinescope-python --lib --bins --tests"
wasm_suite="--package wasm-tests --lib --tests"
# What run_tests runs.
packages=$common

# One build for programs, the recorders' libraries and tests: what the tests' own dependencies ask of shared crates would
# otherwise build those crates twice.
build_for_tests() {
    # shellcheck disable=SC2086 # a list of words
    cargo build --locked $common
}

# What run_tests writes, and where the programs are that tests start: no test builds them again.
tests=target/cargo-test.log
KINESCOPE_BIN_DIR=$(pwd)/target/debug; export KINESCOPE_BIN_DIR

# nextest runs each test in a process of its own, as many at once as there are processors. Where it is missing, it is
# built once from the registry, unoptimised, into target/tools.
NEXTEST_VERSION=0.9.143
if ! cargo nextest --version >/dev/null 2>&1; then
    PATH="$(pwd)/target/tools/bin:$PATH"; export PATH
    if ! cargo nextest --version >/dev/null 2>&1; then
        say "missing, to run tests: cargo-nextest $NEXTEST_VERSION; building it into target/tools"
        cargo install --locked --quiet --debug --root target/tools --version $NEXTEST_VERSION cargo-nextest \
            >target/nextest.log 2>&1 || tail -n 3 target/nextest.log
    fi
fi

# property_tests: the names of the functions within `proptest!` blocks, one a line.
property_tests() {
    grep -rl --include='*.rs' 'proptest! *{' trace-core replay-engine recorders app tests | xargs awk '
        /^ *proptest! *\{/ { on = 1; match($0, /^ */); depth = RLENGTH; next }
        on && /^ *\}/ { match($0, /^ */); if (RLENGTH == depth) on = 0 }
        on && match($0, /fn [a-z0-9_]+\(/) { print substr($0, RSTART + 3, RLENGTH - 4) }' | sort -u
}

# Many tests wait for a program or a peer: two at once for each processor.
at_once=$(($(getconf _NPROCESSORS_ONLN) * 2))

# run_tests TIER [NAME]: all tests of the tier `usual` or `long`, or those whose names contain NAME; tier `property`: the
# property tests. The output of tests that pass is kept: it names those that were skipped.
# count_passed, count_failed, list_failed: of the last run_tests; list_failed comes first and writes target/failed-tests.
if cargo nextest --version >/dev/null 2>&1; then
    run_tests() {
        case $1 in
            # A name may be in one of two package sets.
            usual) set -- --run-ignored default ${2:+--no-tests=pass "$2"} ;;
            long) set -- --run-ignored only ${2:+--no-tests=pass "$2"} ;;
            property) set -- --run-ignored default -E "test(/(^|::)($(property_tests | paste -sd '|'))\$/)" ;;
        esac
        # shellcheck disable=SC2086 # a list of words
        cargo nextest run --locked $packages --test-threads $at_once --success-output immediate "$@" >$tests 2>&1
    }
    count_passed() { sed -n 's/^ *Summary \[.*\] .* \([0-9]*\) passed.*/\1/p' $tests | tail -n 1; }
    count_failed() { grep -c . target/failed-lines; }
    list_failed() {
        sed -n '/^ *Summary \[/,$p' $tests | grep -E '^ *(FAIL|TIMEOUT|ABORT|LEAK-FAIL|SIG[A-Z]+) \[' | sort -u >target/failed-lines
        sed 's/.* //' target/failed-lines | sort -u >target/failed-tests
    }
else
    say "cargo-nextest cannot be had here: tests run program by program, which takes longer"
    run_tests() {
        case $1 in
            usual) set -- ${2:+"$2"} ;;
            long) set -- --ignored ${2:+"$2"} ;;
            property) say "skipped: property tests with more cases (no cargo-nextest)"; : >$tests; return 0 ;;
        esac
        # shellcheck disable=SC2086 # a list of words
        cargo test --locked $packages --no-fail-fast -- --show-output "$@" >$tests 2>&1
    }
    sum() { sed -n "s/^test result: .* \([0-9]*\) $1;.*/\1/p" $tests | awk '{ n += $1 } END { print n + 0 }'; }
    count_passed() { sum passed; }
    count_failed() { sum failed; }
    list_failed() { sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' $tests | sort -u >target/failed-tests; }
fi
