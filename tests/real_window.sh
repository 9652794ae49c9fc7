#!/bin/bash
# Opens a real window on a virtual screen, edits an input, replays, and takes its picture.
# usage: real_window.sh KINESCOPE RECORDING.kine OUT_FOLDER [DISPLAY_NUMBER]
# Needs: xvfb xdotool imagemagick mesa-vulkan-drivers. Exits 0 when the outcome shows in the log that the window writes.
set -eu
bin=$1 recording=$2 out=$3 display=${4:-97}
mkdir -p "$out"
work=$(mktemp -d)
screen='' window=''
trap '[ -z "$window" ] || kill "$window" 2>/dev/null; [ -z "$screen" ] || kill "$screen" 2>/dev/null; rm -rf "$work"' EXIT
cp "$recording" "$work/sample.kine"
export HOME="$work" XDG_CONFIG_HOME="$work/config" XDG_DATA_HOME="$work/data"
Xvfb ":$display" -screen 0 1280x800x24 -noreset >"$work/xvfb.log" 2>&1 & screen=$!
export DISPLAY=":$display"; unset WAYLAND_DISPLAY
for _ in $(seq 50); do xdotool getdisplaygeometry >/dev/null 2>&1 && break; sleep 0.1; done
RUST_LOG=kinescope=info "$bin" "$work/sample.kine" >"$work/window.log" 2>&1 & window=$!
id=$(timeout 60 xdotool search --sync --onlyvisible --name Kinescope | head -1)
xdotool windowsize "$id" 1280 800 windowmove "$id" 0 0 2>/dev/null || true
xdotool windowfocus "$id" 2>/dev/null || true          # there is no window manager to do it
xdotool mousemove 640 300
for _ in $(seq 300); do grep -q 'opened ' "$work/window.log" && break; sleep 0.1; done
sleep 1; import -window root "$out/opened.png"
xdotool key ctrl+6; sleep 0.6                        # Inputs
xdotool key ctrl+p; sleep 0.4; xdotool type --delay 30 'inputs'; sleep 0.4; xdotool key Escape; sleep 0.3
import -window root "$out/inputs.png"
# The first value of the buffer: its place is fixed by the layout at 1280x800.
read -r x y <<<"${VALUE_AT:-540 521}"
xdotool mousemove "$x" "$y"; sleep 0.2; xdotool click 1; sleep 0.5
xdotool key ctrl+a; xdotool type --delay 30 '7'; xdotool key Return; sleep 0.5
import -window root "$out/edited.png"
[ -s "$work/sample.kine-edits" ] || [ -s "$work/sample.kine-edits" ] || { echo 'the edit was not journalled'; cat "$work/window.log"; exit 1; }
xdotool mousemove 640 300; xdotool key ctrl+Return
for _ in $(seq 300); do grep -q 'replay on' "$work/window.log" && break; sleep 0.1; done
sleep 1; import -window root "$out/replayed.png"
grep 'replay on' "$work/window.log"
grep -q 'replay on software:mali-g71: \(Matched\|Diverged\)' "$work/window.log"
