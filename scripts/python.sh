#!/bin/sh
# make python: the Python package as one wheel in target/python/wheels, with the recorder of CUDA programs. Its tools are in a
# venv below target/python.
# Use: scripts/python.sh [test]   test: also installs the wheel in a bare venv, and runs pytest and the speed measurement in
#                                 a venv with the test requirements, which stays
# PROFILE: cargo's profile of the extension module (default: release; with `test`: dev)
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

MATURIN_VERSION=1.16.0
folder=$(pwd)/target/python
wheels=$folder/wheels
tools=$folder/tools
tests=$folder/test
if [ "${1:-}" = test ]; then profile=${PROFILE:-dev}; else profile=${PROFILE:-release}; fi

need_cargo
command -v python3 >/dev/null 2>&1 || die "python3 is missing: install python3 and python3-venv, then run this again"
mkdir -p "$folder"

if [ "$("$tools/bin/maturin" --version 2>/dev/null)" != "maturin $MATURIN_VERSION" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools" || die "python3 has no venv: install python3-venv, then run this again"
    "$tools/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check --only-binary :all: \
        "maturin==$MATURIN_VERSION"
fi

# Installs packages into a venv: install_into VENV PACKAGES AND OPTIONS. Bytecode of what a test imports is made then: making
# all of it takes longer than the rest.
install_into() {
    venv=$1
    shift
    "$tools/bin/python" -m pip --python "$venv" install --quiet --no-compile --disable-pip-version-check \
        --only-binary :all: "$@"
}

# The venv of the tests is made anew when its requirements or the Python version change.
make_test_venv() {
    wanted=$(python3 --version; cat python/tests/requirements.txt)
    [ "$(cat "$tests/requirements" 2>/dev/null)" = "$wanted" ] && return 0
    rm -rf "$tests"
    python3 -m venv --without-pip "$tests"
    install_into "$tests" -r python/tests/requirements.txt
    printf '%s\n' "$wanted" >"$tests/requirements"
}

requirements=
if [ "${1:-}" = test ]; then
    # The compiler and the network work at the same time.
    make_test_venv &
    requirements=$!
fi

# The recorder goes into the wheel, and not into the sources.
recorder=libkinescope_cuda.so
cargo build --locked --profile "$profile" --package kinescope-cuda
case $profile in
    dev) built=debug ;;
    *) built=$profile ;;
esac
trap 'rm -f "python/kinescope/$recorder"' EXIT
cp "${CARGO_TARGET_DIR:-target}/$built/$recorder" python/kinescope/
if [ "$profile" != release ] && command -v strip >/dev/null 2>&1; then strip --strip-debug "python/kinescope/$recorder"; fi

rm -rf "$wheels"
"$tools/bin/maturin" build --locked --profile "$profile" --manifest-path python/Cargo.toml --out "$wheels"
wheel=$(echo "$wheels"/kinescope-*.whl)
[ -e "$wheel" ] || die "maturin left no wheel in $wheels"
rm -f "python/kinescope/$recorder"
say "$wheel"
[ "${1:-}" = test ] || exit 0
wait "$requirements" || die "the requirements of the tests could not be installed"

# A bare venv, made anew: what the wheel needs and does not name is missing there.
rm -rf "$folder/bare"
python3 -m venv --without-pip "$folder/bare"
install_into "$folder/bare" "$wheel"
"$folder/bare/bin/python" -c 'import kinescope; print(kinescope.open("sample-traces/vecadd.kine"))'
"$folder/bare/bin/kinescope" info sample-traces/vecadd.kine >/dev/null

install_into "$tests" --force-reinstall --no-deps "$wheel"
# Some tests start it as their interpreter.
export KINESCOPE_BARE_PYTHON="$folder/bare/bin/python"
cores=$(nproc 2>/dev/null || echo 2)
[ "$cores" -le 8 ] || cores=8
"$tests/bin/python" -m pytest -q -rs -n "$cores" --dist worksteal --ignore python/tests/test_speed.py python/tests
exec "$tests/bin/python" -m pytest -q -rs -s python/tests/test_speed.py
