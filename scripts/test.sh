#!/bin/sh
# make test: every test that needs neither a virtual machine nor a second build. The last line is "N passed, M failed".
# Use: scripts/test.sh [--no-skips]   --no-skips: a test that was skipped for lack of recordings is a failure
set -u
cd "$(dirname "$0")/.." || exit 2
. scripts/lib.sh

no_skips=no
[ "${1:-}" = --no-skips ] && no_skips=yes

need_cargo
need_space 15
# shellcheck disable=SC2086 # lists of words
{
    read_installed $BUILD_PACKAGES $OFFSCREEN_PACKAGES $READER_PACKAGES
    need_packages "to build (a linker, C for a few crates, certificates for downloads)" $BUILD_PACKAGES
    need_packages "to render the window off-screen (a software OpenGL)" $OFFSCREEN_PACKAGES
    need_packages "to read recordings and exports by Python programs" $READER_PACKAGES
}
install_packages

. scripts/steps.sh
. scripts/count-tests.sh
begin_log target/test.log

if cargo fmt --version >/dev/null 2>&1; then step "formatting" cargo fmt --all --check; else say "skipped: formatting (no rustfmt)"; fi
step "dependencies between crates point one way, and the agent stays thin" sh tests/agent-deps.sh
step "programs, the recorders' libraries and the tests build" build_for_tests
packages=$wasm_suite
tests_step "the WebAssembly test-suite and generated programs" usual
packages=$common
tests_step "tests of the workspace" usual
# With `--no-skips` only tests that lack recordings fail the run, not those that lack a device or a program.
unread=$(grep -cE '^ *skipped: (no recordings? |no inputs from the field|.* is (not there|not here|missing)$)' $tests)
if [ $no_skips = yes ]; then failed=$((failed + unread)); fi
say "$skips tests skipped, $unread of them on real recordings (they read KINESCOPE_RECORDINGS, default ../shared/recordings)"
end_steps
