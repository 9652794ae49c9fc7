#!/bin/sh
# make test-full: what `make test` runs, then the long tier: every test that is ignored (#[ignore = "make test-full: WHY"]).
# The last line is "N passed, M failed" of the long tier. TESTS=NAME: the long tier alone, and of it the tests whose
# names hold NAME.
set -u
cd "$(dirname "$0")/.." || exit 2
. scripts/lib.sh

status=0
if [ -z "${TESTS:-}" ]; then
    scripts/test.sh || status=1
fi
need_cargo
cargo build --locked || exit 1
mkdir -p target
start=$(date +%s)
# shellcheck disable=SC2086 # no name is no argument
cargo test --workspace --locked --no-fail-fast -- --ignored --show-output ${TESTS:-} >target/test-full.log 2>&1
long=$?
grep -E '^test .* \.\.\. ' target/test-full.log
[ $long = 0 ] || grep -E '^error|panicked at' -A 12 target/test-full.log | tail -n 200
sum() { sed -n "s/^test result: .* \([0-9]*\) $1;.*/\1/p" target/test-full.log | awk '{ n += $1 } END { print n + 0 }'; }
say "the long tier ($(took "$start")):"
say "$(sum passed) passed, $(sum failed) failed"
[ $long = 0 ] && [ $status = 0 ]
