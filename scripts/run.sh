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
        need_packages "to render the window off-screen (a software Vulkan)" $OFFSCREEN_PACKAGES
    fi
}
install_packages

recording=${1:-}
if [ -z "$recording" ]; then
    for recording in sample-traces/vecadd.kine sample-traces/*.kine; do
        [ -e "$recording" ] && break
    done
fi
[ -e "$recording" ] || die "$recording: no such recording (expected a .kine, or a folder or file that can be imported)"

start=$(date +%s)
[ -d target/debug ] || say "building; the first time this takes some minutes"
cargo build --locked --quiet -p kinescope -p kinescope-agent
[ "$(took "$start")" = "0 s" ] || say "built in $(took "$start")"

kinescope=target/debug/kinescope
if [ $display = yes ]; then
    exec $kinescope "$recording" --board software:mali-g71
fi

say "there is no display here: the same tour as text, and the window as a picture"
out=target/tour
mkdir -p $out
step() { say ""; say "\$ kinescope $*"; }

step info "$recording"
$kinescope info "$recording"

step check "$recording"
$kinescope check "$recording" || [ $? = 1 ]

step replay "$recording" --on software:mali-g71 -o $out/outcome.kine
$kinescope replay "$recording" --on software:mali-g71 -o $out/outcome.kine

step diff "$recording" $out/outcome.kine
$kinescope diff "$recording" $out/outcome.kine || [ $? = 1 ]

# Without a session a library on the way to the adapter complains that this is not set.
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/tmp}"
step --screenshot $out/window.png "$recording"
$kinescope --screenshot $out/window.png "$recording"
say ""
say "the window is in $out/window.png, the replay's outcome in $out/outcome.kine"
