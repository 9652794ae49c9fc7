#!/bin/sh
# Makes ../digits.kine again: the network's program on Mesa's panfrost driver, recorded live on the software Mali-G71.
# Needs Mesa with panfrost (make mesa). Use: sample-traces/digits/make.sh [OUT.kine]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
out=${1:-sample-traces/digits.kine}
cargo build --quiet --locked -p kinescope -p kinescope-panfrost -p gles-programs
# Shaders kept from another run would not be compiled again.
export MESA_SHADER_CACHE_DISABLE=1
exec target/debug/kinescope record --with panfrost --on software:mali-g71 -o "$out" -- target/debug/digits
