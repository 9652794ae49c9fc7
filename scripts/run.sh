#!/bin/sh
# make run: install what is missing, build, open the window on a sample recording. Without a display: the same tour
# in text, and the window rendered off-screen.
# Use: scripts/run.sh [RECORDING]
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

display=yes
if [ -z "${DISPLAY:-}" ] && [ -z "${WAYLAND_DISPLAY:-}" ]; then display=no; fi

need_cargo
# shellcheck disable=SC2086 # lists of words
{
    read_installed $BUILD_PACKAGES $WINDOW_PACKAGES
    need_packages "to build (a linker, C for a few crates, certificates for downloads)" $BUILD_PACKAGES
    if [ $display = yes ]; then
        need_packages "to open a window (X11 input, Vulkan or OpenGL)" $WINDOW_PACKAGES
    else
        need_packages "to render the window off-screen (a software OpenGL)" $OFFSCREEN_PACKAGES
    fi
}
install_packages

recording=${1:-}
if [ -z "$recording" ]; then
    for recording in sample-traces/digits.kine sample-traces/vecadd.kine sample-traces/*.kine; do
        [ -e "$recording" ] && break
    done
fi
[ -e "$recording" ] || die "$recording: no such recording (expected a .kine, or a folder or file that can be imported)"

start=$(date +%s)
[ -d target/debug ] || say "building; the first time this takes some minutes"
cargo build --locked --quiet -p kinescope -p kinescope-agent -p kinescope-panfrost
[ "$(took "$start")" = "0 s" ] || say "built in $(took "$start")"

kinescope=target/debug/kinescope
if [ $display = yes ]; then
    # It selects the simulator of the recording's own GPU.
    exec $kinescope "$recording"
fi

say "no display: the same tour runs as text, and the window becomes a picture"
out=target/tour
mkdir -p $out
failed=""; worst=0
# step COUNTS-AS-GOOD ARGUMENT...: shows and runs one line. What fails is listed at the end, and the tour goes on.
step() {
    good=$1; shift
    say ""; say "\$ kinescope $*"
    code=0
    $kinescope "$@" || code=$?
    [ $code -le "$good" ] || failed="$failed $1 (exit code $code)"
    [ $code -le "$good" ] || [ $code -le $worst ] || worst=$code
}

# The simulator of the recording's own GPU, where there is one.
board=$($kinescope info "$recording" 2>/dev/null | sed -n 's/^GPU  *Mali-\(G[0-9]*\) .*/software:mali-\1/p' | tr G g)
[ -n "$board" ] && $kinescope targets 2>/dev/null | grep -q "^$board " || board=software:mali-g71

step 0 info "$recording"
step 1 check "$recording"
step 0 replay "$recording" --on "$board" -o $out/outcome.kine
replayed=$code
# A replay that could not start leaves nothing to compare with.
[ $replayed -gt 1 ] || step 1 diff "$recording" $out/outcome.kine

# Without a session a library on the way to the adapter complains that this is not set.
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/tmp}"
step 0 --screenshot $out/window.png "$recording"
say ""
[ $code != 0 ] || say "the window is in $out/window.png"
[ $replayed -gt 1 ] || say "the replay's outcome is in $out/outcome.kine"
[ -z "$failed" ] || { say "failed:$failed" >&2; exit $worst; }
