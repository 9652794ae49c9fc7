#!/bin/bash
# Opens a real window on a virtual screen, edits an input by keyboard, replays, and takes its picture.
# usage: real_window.sh KINESCOPE RECORDING.kine OUT_FOLDER
# Needs: xvfb xdotool imagemagick, and mesa's software drivers. What it asserts: the edit stands in the journal as it
# was typed, is taken back and done again, the sheet of keys opens and closes, the
# replay ran with it and ended as the log says, the workspace lies beside the recording, the program ended well, and
# each picture shows something else than the one before. Every wait is for a condition, with a limit.
# WINDOW_RENDERER=glow (as comes) hides Vulkan's drivers: the window must open with OpenGL; wgpu asks for wgpu alone.
set -euo pipefail
bin=$1 recording=$2 out=$3
mkdir -p "$out"
work=$(mktemp -d)
screen='' window=''
finish() {
    [ -z "$window" ] || kill "$window" 2>/dev/null || true
    [ -z "$screen" ] || kill "$screen" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
fail() { echo "FAILED: $*"; echo '--- log of the window:'; tail -n 40 "$work/window.log" 2>/dev/null || true; exit 1; }
# until SECONDS WHAT COMMAND...: waits for a condition.
until_holds() {
    local limit=$1 what=$2 tries
    shift 2
    for ((tries = limit * 20; tries > 0; tries--)); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        [ -z "$window" ] || kill -0 "$window" 2>/dev/null || fail "the program ended before: $what"
        sleep 0.05
    done
    fail "after $limit s there was no: $what"
}
logged() { grep -q -- "$1" "$work/window.log"; }
# Presses keys and waits until the log tells the command that they belong to.
do_command() {
    local keys=$1 id=$2 before
    before=$(grep -c "command $id\$" "$work/window.log" || true)
    xdotool key "$keys"
    more() { [ "$(grep -c "command $id\$" "$work/window.log" || true)" -gt "$before" ]; }
    until_holds 20 "command $id after $keys" more
}
# Takes a picture once two in a row are alike, show more than a plain surface (a software driver compiles its shaders
# first), and differ from the last one that was kept.
last_picture=none
picture() {
    local name=$1 now before=''
    settled() {
        import -window root "$work/now.png"
        now=$(identify -format '%#' "$work/now.png")
        if [ "$now" = "$before" ] && [ "$now" != "$last_picture" ] &&
            [ "$(identify -format '%k' "$work/now.png")" -gt 64 ]; then return 0; fi
        before=$now
        return 1
    }
    until_holds 30 "picture of $name" settled
    last_picture=$(identify -format '%#' "$work/now.png")
    cp "$work/now.png" "$out/$name.png"
}

cp "$recording" "$work/sample.kine"
mkdir "$work/run"; chmod 700 "$work/run"
export HOME="$work" XDG_CONFIG_HOME="$work/config" XDG_DATA_HOME="$work/data" XDG_RUNTIME_DIR="$work/run"
unset WAYLAND_DISPLAY KINESCOPE_KEYS KINESCOPE_RENDERER
if [ "${WINDOW_RENDERER:-glow}" = glow ]; then
    export VK_DRIVER_FILES=/dev/null VK_ICD_FILENAMES=/dev/null
    renderer=Glow
else
    export KINESCOPE_RENDERER=wgpu
    renderer=Wgpu
fi
# The server chooses a display that is free and tells which.
Xvfb -displayfd 7 -screen 0 1280x800x24 -noreset -nolisten tcp 7>"$work/display" >"$work/xvfb.log" 2>&1 &
screen=$!
until_holds 20 "virtual screen" test -s "$work/display"
DISPLAY=":$(cat "$work/display")"; export DISPLAY
until_holds 20 "answer of the virtual screen" xdotool getdisplaygeometry

RUST_LOG=kinescope=debug NO_COLOR=1 "$bin" "$work/sample.kine" >"$work/window.log" 2>&1 &
window=$!
until_holds 60 "window" xdotool search --onlyvisible --name Kinescope
id=$(xdotool search --onlyvisible --name Kinescope | head -n 1)
# There is no window manager to place the window and to give it the keyboard.
xdotool windowmove "$id" 0 0
xdotool windowsize "$id" 1280 800
xdotool mousemove 640 20
until_holds 60 "recording" logged 'opened .*sample.kine'
logged "drawing with $renderer" || fail "expected the renderer $renderer"
focused() { xdotool windowfocus "$id"; [ "$(xdotool getwindowfocus -f)" = "$id" ]; }
until_holds 20 "keyboard focus" focused
picture opened

# A value is written over as it is come to: nothing of what stood there is left, and nothing of it is added to.
journal="$work/sample.kine-edits"
journaled() { grep -q -- "$1" "$journal"; }
do_command e edit-input
picture editing
xdotool type --delay 15 7
xdotool key Return
until_holds 20 "edit in the journal" journaled '"do"'
journaled '"new":"07\(00\)*"' || journaled '"new":"0000e040"' || fail "the value was not 7 alone: $(cat "$journal")"
picture edited
# The keyboard is at the next value, in which nothing was typed: undo and redo are about the edit.
do_command ctrl+z undo
until_holds 20 "undo in the journal" journaled '^"undo"'
picture undone
do_command ctrl+y redo
until_holds 20 "redo in the journal" journaled '^"redo"'

# The sheet of keys comes and goes, and no key without Ctrl acts behind it. Keys are taken in the order in which they
# are pressed, so that the one behind the sheet would have been counted before the one after it.
xdotool key Escape
do_command question help
picture keys
xdotool key period
xdotool key Escape
picture keys_closed
do_command period next-event
[ "$(grep -c 'command next-event$' "$work/window.log")" = 1 ] || fail "a key acted behind the sheet of keys"

do_command ctrl+Return replay
until_holds 120 "outcome" logged 'replay on software:mali-g71: '
picture replayed
logged 'replay on software:mali-g71: \(Matched\|Diverged\) .* reads .* 1 input edited' || fail "the replay with the edit did not run"

do_command ctrl+q quit
gone() { ! kill -0 "$window" 2>/dev/null; }
for ((tries = 400; tries > 0; tries--)); do gone && break; sleep 0.05; done
gone || fail "the window did not close"
wait "$window" || fail "the program ended with $?"
window=''
tail -n 1 "$work/sample.kine-edits" | grep -q closed || fail "the journal was not ended in good order"
grep -q 'software:mali-g71' "$work/sample.kine-workspace" || fail "the workspace does not lie beside the recording"
grep 'replay on' "$work/window.log"
