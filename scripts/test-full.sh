#!/bin/sh
# make test-full: what `make test` leaves out, and nothing of it again: boards in QEMU, programs for arm64, lints, real
# windows, other languages' readers, more cases of property tests. The last line is "N passed, M failed".
# TESTS=NAME: only the tests whose names contain NAME.
set -u
cd "$(dirname "$0")/.." || exit 2
. scripts/lib.sh

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

. scripts/steps.sh
. scripts/count-tests.sh
begin_log target/test-full.log

# Advisories are left out: their database is not in the registry that the crates come from.
if cargo deny --version >/dev/null 2>&1; then
    step "licences and sources of dependencies" cargo deny --locked check licenses bans sources
else
    say "skipped: licences and sources of dependencies (cargo install --locked cargo-deny)"
fi

step "programs, the recorders' libraries and the tests build" build_for_tests
# Boards in a box: QEMU, Debian's kernel, the agent for both machines. What this machine cannot have (no network, no apt)
# is printed, and its tests are skipped; an agent that does not build is a failure. The agent of x86-64 is that of the
# build above, and the static one of arm64 is a development build too: an optimised one takes twice as long.
start=$(date +%s)
AGENT_PROFILE=dev X86_64_AGENT=target/debug/kinescope-agent scripts/board/images.sh x86_64 arm64 >target/step.log 2>&1
status=$?
{ echo "== boards in a box"; cat target/step.log; } >>"$log"
case $status in
    0) passed=$((passed + 1)); cat target/step.log; say "ok      boards in a box are prepared ($(took "$start"))" ;;
    2) tail -n 5 target/step.log; say "skipped: boards in a box, which this machine cannot have" ;;
    *) failed=$((failed + 1)); tail -n 60 target/step.log; say "FAILED  boards in a box are prepared ($(took "$start"))" ;;
esac

# NVIDIA's assembler, for the tests that assemble translated WebAssembly programs; it is used, and not kept elsewhere.
ptxas_version=13.0.88
if [ -z "${KINESCOPE_PTXAS:-}" ] && ! command -v ptxas >/dev/null; then
    KINESCOPE_PTXAS=$(pwd)/target/ptxas/nvidia/cu13/bin/ptxas
    if [ ! -x "$KINESCOPE_PTXAS" ]; then
        rm -rf target/ptxas
        python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --target target/ptxas \
            "nvidia-cuda-nvcc==$ptxas_version" >target/ptxas.log 2>&1
    fi
    if "$KINESCOPE_PTXAS" --version >/dev/null 2>&1; then
        export KINESCOPE_PTXAS
        say "ok      NVIDIA's assembler $ptxas_version is here, from PyPI"
    else
        unset KINESCOPE_PTXAS
        say "skipped: NVIDIA's assembler accepts the translated programs ($(tail -n 1 target/ptxas.log))"
    fi
fi

tests_step "the long tier" long "${TESTS:-}"
packages=$wasm_suite
tests_step "the long tier of WebAssembly" long "${TESTS:-}"
packages=$common
[ -z "${TESTS:-}" ] || { end_steps; exit; }

# More cases, other ones at each run: what fails names its seed. The number holds for every property test.
PROPTEST_CASES=200 tests_step "property tests with more cases" property

if cargo clippy --version >/dev/null 2>&1; then
    step "lints" cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
else
    say "skipped: lints (no clippy)"
fi
for kine in sample-traces/*.kine sample-traces/cuda/*.kine; do
    [ -e "$kine" ] || continue
    step "a reader written from docs/format.md reads $kine" python3 tests/format_reader.py "$kine"
done

# Readers of exports that others wrote. Their crates are built for these tests alone.
step "waveforms and traces, read by wellen and by Perfetto's schema" \
    cargo test --locked --quiet --package export-readers

# The Python package, in an environment of its own. Its tests start the program that is built above.
if python3 -m venv --help >/dev/null 2>&1; then
    step "the Python package builds, and its tests pass" scripts/python.sh test
    grep -E '^(speed relative to Parquet|[0-9]+ events with)' target/step.log
else
    say "skipped: the Python package (no python3 with venv)"
fi

# Readers of the last three years, each in an environment of its own; where PyPI is not reached, or has no package for
# this Python, they are skipped.
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

# A window on a virtual screen, driven by keys: once drawn by OpenGL with Vulkan's drivers hidden, once by Vulkan, which
# the packages for users have.
if command -v Xvfb >/dev/null && command -v xdotool >/dev/null && command -v import >/dev/null; then
    step "a real window opens, edits and replays, drawn by glow" env WINDOW_RENDERER=glow \
        bash tests/real_window.sh target/debug/kinescope sample-traces/vecadd.kine target/window-glow
    step "the program with wgpu builds" cargo build --locked --package kinescope --features wgpu
    step "a real window opens, edits and replays, drawn by wgpu" env WINDOW_RENDERER=wgpu \
        bash tests/real_window.sh target/debug/kinescope sample-traces/vecadd.kine target/window-wgpu
    step "the program without wgpu is put back" cargo build --locked --package kinescope
else
    say "skipped: a real window (no Xvfb, xdotool or ImageMagick here)"
fi
end_steps
