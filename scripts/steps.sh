# Steps of a test script, and their count. Sourced by test.sh and test-full.sh, not run. POSIX sh; needs lib.sh.

passed=0
failed=0
mkdir -p target

# begin_log FILE: the file that has the output of all steps.
begin_log() {
    log=$1
    : >"$log"
}

# step NAME COMMAND...: one check that passes or fails as a whole. Its output is shown when it fails.
step() {
    name=$1; shift
    start=$(date +%s)
    if "$@" >target/step.log 2>&1; then
        passed=$((passed + 1))
        say "ok      $name ($(took "$start"))"
    else
        failed=$((failed + 1))
        tail -n 60 target/step.log
        say "FAILED  $name ($(took "$start"))"
    fi
    { echo "== $name"; cat target/step.log; } >>"$log"
}

# tests_step NAME TIER [FILTER]: the tests of a tier; each test counts.
tests_step() {
    name=$1; shift
    start=$(date +%s)
    status=0
    run_tests "$@" || status=$?
    cat $tests >>"$log"
    list_failed
    ran_ok=$(count_passed)
    ran_bad=$(count_failed)
    if [ $status != 0 ]; then
        grep -E '^error|FAIL|TIMEOUT|panicked at|^warning: unused' -A 12 $tests | tail -n 200
        # A test crate that did not compile, or a test program that died, counts nothing by itself.
        [ "${ran_bad:-0}" != 0 ] || ran_bad=1
    fi
    passed=$((passed + ${ran_ok:-0}))
    failed=$((failed + ran_bad))
    say "$([ $status = 0 ] && echo 'ok     ' || echo 'FAILED ') $name: ${ran_ok:-0} passed, $ran_bad failed ($(took "$start"))"
    skips=$(grep -cE '^ *skipped: ' $tests)
    if [ "$skips" != 0 ]; then
        grep -E '^ *skipped: ' $tests | sed 's/^ *//' | sort | uniq -c | sort -rn | head -n 20
    fi
}

# end_steps: the last line, "N passed, M failed", and the exit status.
end_steps() {
    say "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
