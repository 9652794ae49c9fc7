#!/bin/sh
# make python: the Python package as one wheel in target/python/wheels. Its tools are in a venv below target/python.
# Use: scripts/python.sh [test]   test: also installs the wheel with its test requirements in a bare venv, and runs pytest
# PROFILE: cargo's profile of the extension module (default: release; with `test`: dev)
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

MATURIN_VERSION=1.16.0
folder=$(pwd)/target/python
wheels=$folder/wheels
if [ "${1:-}" = test ]; then profile=${PROFILE:-dev}; else profile=${PROFILE:-release}; fi

need_cargo
command -v python3 >/dev/null 2>&1 || die "python3 is missing: install python3 and python3-venv, then run this again"
mkdir -p "$folder"

if [ "$("$folder/tools/bin/maturin" --version 2>/dev/null)" != "maturin $MATURIN_VERSION" ]; then
    rm -rf "$folder/tools"
    python3 -m venv "$folder/tools" || die "python3 has no venv: install python3-venv, then run this again"
    "$folder/tools/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        "maturin==$MATURIN_VERSION"
fi

rm -rf "$wheels"
"$folder/tools/bin/maturin" build --locked --profile "$profile" --manifest-path python/Cargo.toml --out "$wheels"
wheel=$(echo "$wheels"/kinescope-*.whl)
[ -e "$wheel" ] || die "maturin left no wheel in $wheels"
say "$wheel"
[ "${1:-}" = test ] || exit 0

# A bare venv, made anew: what the wheel needs and does not name is missing there.
rm -rf "$folder/test"
python3 -m venv "$folder/test"
"$folder/test/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    "$wheel" -r python/tests/requirements.txt
exec "$folder/test/bin/python" -m pytest -q -rs -s python/tests
