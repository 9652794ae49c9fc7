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

step "programs and the recorder's library build" cargo build --locked
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
# Counted by libtest itself; the output of passing tests is kept to count what was skipped.
start=$(date +%s)
cargo test --workspace --locked --no-fail-fast -- --show-output >target/cargo-test.log 2>&1
status=$?
cat target/cargo-test.log >>$log
# sum WORD FILE: how many tests of all test programs of a run ended so.
sum() { sed -n "s/^test result: .* \([0-9]*\) $1;.*/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'; }
ran_ok=$(sum passed target/cargo-test.log)
ran_bad=$(sum failed target/cargo-test.log)
if [ $status != 0 ]; then
    grep -E '^error|^test .*FAILED$|panicked at|^warning: unused' -A 6 target/cargo-test.log | tail -n 120
    # A test crate that did not compile, or a test program that died, counts nothing by itself.
    [ "$ran_bad" != 0 ] || ran_bad=1
fi
# A test that fails beside others and passes by itself is a defect too, but not of what was changed: it is named, and
# the run goes on. Test programs that did not compile or died have no such second chance.
grep -E '^test .* \.\.\. FAILED$' target/cargo-test.log | sort -u >target/failed-tests
if [ -s target/failed-tests ] && [ "$(wc -l <target/failed-tests)" -le 3 ] && [ "$(wc -l <target/failed-tests)" = "$ran_bad" ]; then
    again=0
    sed -n 's/^    `\(-p [^`]*\)`$/\1/p; s/^error: test failed, to rerun pass `\(-p [^`]*\)`$/\1/p' target/cargo-test.log |
        sort -u >target/failed-programs
    while read -r program; do
        # shellcheck disable=SC2086 # a list of words
        cargo test --locked $program -- --test-threads=1 </dev/null >target/step.log 2>&1 || again=1
        cat target/step.log >>$log
    done <target/failed-programs
    if [ $again = 0 ]; then
        sed 's/^test \(.*\) \.\.\. FAILED$/UNSTEADY \1: failed beside other tests, passed when its program ran again alone/' target/failed-tests
        ran_ok=$((ran_ok + ran_bad))
        ran_bad=0
        status=0
    fi
fi
passed=$((passed + ran_ok))
failed=$((failed + ran_bad))
say "$([ $status = 0 ] && echo 'ok     ' || echo 'FAILED ') tests of the workspace: $ran_ok passed, $ran_bad failed ($(took "$start"))"

if cargo clippy --version >/dev/null 2>&1; then
    step "lints" cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
else
    say "skipped: lints (no clippy)"
fi
for kine in sample-traces/*.kine sample-traces/cuda/*.kine; do
    [ -e "$kine" ] || continue
    step "a reader written from docs/format.md reads $kine" python3 tests/format_reader.py "$kine"
done

# Readers of exports that others wrote, in an environment of their own; where PyPI is not reached they are skipped.
readers=target/readers
if ! $readers/bin/python -c 'import pyarrow, numpy' 2>/dev/null; then
    rm -rf $readers
    python3 -m venv $readers >target/readers.log 2>&1 &&
        $readers/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
            pyarrow==26.0.1 numpy==2.4.6 >>target/readers.log 2>&1
fi
if $readers/bin/python -c 'import pyarrow, numpy' 2>/dev/null; then
    step "pyarrow and numpy read what is exported" $readers/bin/python tests/export_reader.py \
        target/debug/kinescope sample-traces/digits.kine target/exported-tables
else
    say "skipped: pyarrow and numpy read what is exported ($(tail -n 1 target/readers.log))"
fi

# A window on a virtual screen, driven by keys: once drawn by OpenGL with Vulkan's drivers hidden, once by Vulkan.
if command -v Xvfb >/dev/null && command -v xdotool >/dev/null && command -v import >/dev/null; then
    for renderer in glow wgpu; do
        step "a real window opens, edits and replays, drawn by $renderer" env WINDOW_RENDERER=$renderer \
            bash tests/real_window.sh target/debug/kinescope sample-traces/vecadd.kine target/window-$renderer
    done
else
    say "skipped: a real window (no Xvfb, xdotool or ImageMagick here)"
fi

skips=$(grep -c '^skipped: ' target/cargo-test.log)
if [ "$skips" != 0 ]; then
    grep '^skipped: ' target/cargo-test.log | sort | uniq -c | sort -rn | head -n 20
    if [ $no_skips = yes ]; then failed=$((failed + skips)); fi
fi
say "$skips tests on real recordings skipped (they read KINESCOPE_RECORDINGS, default ../shared/recordings)"
say "$passed passed, $failed failed"
[ $failed = 0 ]
