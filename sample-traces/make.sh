#!/bin/sh
# Makes every file of this folder again. Foreign job chains are read from KINESCOPE_RECORDINGS.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
recordings=${KINESCOPE_RECORDINGS:-$here/../../shared/recordings}
cd "$here/.."
exec cargo run --quiet --locked -p driver-mali --example make_samples -- "$here" "$recordings"
