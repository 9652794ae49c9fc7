#!/bin/sh
# make test: install what tests need, run all of them. The last line is "N passed, M failed".
# Use: scripts/test.sh [--no-skips]   --no-skips: a test that was skipped for lack of recordings is a failure
set -u
cd "$(dirname "$0")/.." || exit 2
. scripts/lib.sh

no_skips=no
[ "${1:-}" = --no-skips ] && no_skips=yes

need_cargo
need_space 25
# shellcheck disable=SC2086 # lists of words
{
    read_installed $BUILD_PACKAGES $WINDOW_PACKAGES $TEST_PACKAGES $ARM64_PACKAGES
    need_packages "to build (a linker, C for a few crates, certificates for downloads)" $BUILD_PACKAGES
    need_packages "to open and render windows (X11 input, Vulkan or OpenGL)" $WINDOW_PACKAGES
    need_packages "to test with a real window and other languages' readers" $TEST_PACKAGES
    need_packages "to build exported programs for arm64 and run them" $ARM64_PACKAGES
}
install_packages
install_qemu "for devices in QEMU" x86

. scripts/count-tests.sh
passed=0
failed=0
mkdir -p target
log=target/test.log
: >$log

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
    { echo "== $name"; cat target/step.log; } >>$log
}

# Formatting and lints first: they are quick to mend. A toolchain may lack the tools; the compiler's own warnings stay.
if cargo fmt --version >/dev/null 2>&1; then step "formatting" cargo fmt --all --check; else say "skipped: formatting (no rustfmt)"; fi
step "rooms: arrows point one way, the agent stays thin" sh tests/agent-deps.sh
# Advisories are left out: their database is not in the registry that the crates come from.
if cargo deny --version >/dev/null 2>&1; then
    step "licences and sources of what is depended on" cargo deny --locked check licenses bans sources
else
    say "skipped: licences and sources of what is depended on (cargo install --locked cargo-deny)"
fi

step "programs, the recorders' libraries and the tests build" build_for_tests
# Boards in a box: QEMU, Debian's kernel, the agent for both machines. What this machine cannot have (no network, no apt)
# is told, and the tests of it are skipped; an agent that does not build is a failure.
start=$(date +%s)
scripts/board/images.sh x86_64 arm64 >target/step.log 2>&1
status=$?
{ echo "== boards in a box"; cat target/step.log; } >>$log
case $status in
    0) passed=$((passed + 1)); cat target/step.log; say "ok      boards in a box are prepared ($(took "$start"))" ;;
    2) tail -n 5 target/step.log; say "skipped: boards in a box, which this machine cannot have" ;;
    *) failed=$((failed + 1)); tail -n 60 target/step.log; say "FAILED  boards in a box are prepared ($(took "$start"))" ;;
esac
start=$(date +%s)
run_tests usual
status=$?
cat $tests >>$log
list_failed
ran_ok=$(count_passed)
ran_bad=$(count_failed)
if [ $status != 0 ]; then
    grep -E '^error|FAIL|TIMEOUT|panicked at|^warning: unused' -A 6 $tests | tail -n 120
    # A test crate that did not compile, or a test program that died, counts nothing by itself.
    [ "${ran_bad:-0}" != 0 ] || ran_bad=1
fi
# A test that fails beside others and passes by itself is a defect too, but not of what was changed: it is named, and
# the run goes on. Test programs that did not compile or died have no such second chance.
if [ -s target/failed-tests ] && [ "$(wc -l <target/failed-tests)" -le 3 ] && [ "$(wc -l <target/failed-tests)" = "$ran_bad" ]; then
    if run_again >target/step.log 2>&1; then
        sed 's/^/UNSTEADY /; s/$/: failed beside other tests, passed when it ran again alone/' target/failed-tests
        ran_ok=$((ran_ok + ran_bad))
        ran_bad=0
        status=0
    fi
    cat target/step.log >>$log
fi
passed=$((passed + ${ran_ok:-0}))
failed=$((failed + ran_bad))
say "$([ $status = 0 ] && echo 'ok     ' || echo 'FAILED ') tests of the workspace: ${ran_ok:-0} passed, $ran_bad failed ($(took "$start"))"

if cargo clippy --version >/dev/null 2>&1; then
    step "lints" cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
else
    say "skipped: lints (no clippy)"
fi
for kine in sample-traces/*.kine sample-traces/cuda/*.kine; do
    [ -e "$kine" ] || continue
    step "a reader written from docs/format.md reads $kine" python3 tests/format_reader.py "$kine"
done

# Readers of exports that others wrote, of the last three years, each in an environment of its own; where PyPI is not
# reached, or has no package for this Python, they are skipped.
for packages in "pyarrow==14.0.2 pandas==2.1.4 numpy==1.26.4" "pyarrow==19.0.1 pandas==2.2.3 numpy==2.2.6" \
    "pyarrow==26.0.1 pandas==3.1.1 numpy==2.4.6"; do
    version=${packages%% *}
    version=${version#pyarrow==}
    readers=target/readers-${version%%.*}
    if ! $readers/bin/python -c 'import pyarrow, pandas, numpy' 2>/dev/null; then
        rm -rf $readers
        # shellcheck disable=SC2086 # a list of words
        python3 -m venv $readers >target/readers.log 2>&1 &&
            $readers/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
                $packages >>target/readers.log 2>&1
    fi
    if $readers/bin/python -c 'import pyarrow, pandas, numpy' 2>/dev/null; then
        for recording in sample-traces/digits.kine tests/excerpts/several-spaces.txt; do
            step "pyarrow $version and pandas read what is exported of $recording" $readers/bin/python \
                tests/export_reader.py target/debug/kinescope "$recording" target/exported-tables
        done
    else
        say "skipped: pyarrow $version reads what is exported ($(tail -n 1 target/readers.log))"
    fi
done

# A window on a virtual screen, driven by keys: once drawn by OpenGL with Vulkan's drivers hidden, once by Vulkan.
if command -v Xvfb >/dev/null && command -v xdotool >/dev/null && command -v import >/dev/null; then
    for renderer in glow wgpu; do
        step "a real window opens, edits and replays, drawn by $renderer" env WINDOW_RENDERER=$renderer \
            bash tests/real_window.sh target/debug/kinescope sample-traces/vecadd.kine target/window-$renderer
    done
else
    say "skipped: a real window (no Xvfb, xdotool or ImageMagick here)"
fi

skips=$(grep -cE '^ *skipped: ' $tests)
if [ "$skips" != 0 ]; then
    grep -E '^ *skipped: ' $tests | sed 's/^ *//' | sort | uniq -c | sort -rn | head -n 20
fi
# With `--no-skips` only tests that lack recordings fail the run, not those that lack a device or a program.
unread=$(grep -cE '^ *skipped: (no recordings? |no inputs from the field|.* is (not there|not here|missing)$)' $tests)
if [ $no_skips = yes ]; then failed=$((failed + unread)); fi
say "$skips tests skipped, $unread of them on real recordings (they read KINESCOPE_RECORDINGS, default ../shared/recordings)"
say "$passed passed, $failed failed"
[ $failed = 0 ]
