#!/bin/sh
# make test-full: the long tier, every test that is ignored (#[ignore = "make test-full: WHY"]). `make test` runs the
# others. TESTS=NAME: only those whose names contain NAME. The last line is "N passed, M failed".
set -u
cd "$(dirname "$0")/.." || exit 2
. scripts/lib.sh

need_cargo
. scripts/count-tests.sh
mkdir -p target
start=$(date +%s)
build_for_tests >target/step.log 2>&1 || { tail -n 60 target/step.log; die "the programs and tests do not build"; }
run_tests long "${TESTS:-}"
status=$?
cp $tests target/test-full.log
list_failed
[ $status = 0 ] || grep -E '^error|FAIL|TIMEOUT|panicked at' -A 12 target/test-full.log | tail -n 200
say "the long tier ($(took "$start"); its output is in target/test-full.log):"
passed=$(count_passed); failed=$(count_failed)
[ $status = 0 ] || [ "${failed:-0}" != 0 ] || failed=1
say "${passed:-0} passed, $failed failed"
[ $status = 0 ]
