#!/bin/sh
# Proves a Debian package: installs it with apt, opens a sample, asks the desktop's tools about it, removes it again.
# Use: scripts/prove-deb.sh FILE.deb      as root, in a bare system (scripts/prove-bare.sh FOLDER deb does this)
set -eu
deb=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DEBIAN_FRONTEND=noninteractive

fail() { echo "FAILED  $*" >&2; exit 1; }
ok() { echo "ok      $*"; }
# try NAME COMMAND...: a command that has to succeed. Its output is shown when it does not.
try() {
    name=$1; shift
    "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "$name"; }
    ok "$name"
}
# is NAME EXPECTED COMMAND...: a command that has to print this line.
is() {
    name=$1; expected=$2; shift 2
    printed=$("$@" 2>"$work/out") || { cat "$work/out" >&2; fail "$name"; }
    [ "$printed" = "$expected" ] || fail "$name: '$printed', expected '$expected'"
    ok "$name: $printed"
}

try "apt reads its lists" apt-get update -q
# A chroot may leave documents out; the man pages are a part of what is proven.
try "apt installs the package with what it depends on and recommends" \
    apt-get install -y -q -o 'DPkg::Options::=--path-include=/usr/share/man/*' \
    -o 'DPkg::Options::=--path-include=/usr/share/doc/*' "$deb"
try "apt installs the desktop's tools" apt-get install -y -q --no-install-recommends \
    desktop-file-utils shared-mime-info xdg-utils libfile-mimeinfo-perl man-db
try "every file has the sum that the package names" dpkg --verify kinescope

sample=/usr/share/kinescope/sample-traces/vecadd.kine
try "kinescope info" kinescope info "$sample"
try "kinescope replay on a simulator" kinescope replay "$sample" --on software:mali-g71
try "kinescope --screenshot" env XDG_RUNTIME_DIR="$work" kinescope --screenshot "$work/window.png" "$sample"
[ -s "$work/window.png" ] || fail "the picture of the window is empty"
try "kinescope-agent" kinescope-agent --version
for library in panfrost cuda; do
    [ -f "/usr/lib/kinescope/libkinescope_$library.so" ] || fail "the recorder's library for $library is missing"
done

try "the desktop entry is valid" desktop-file-validate /usr/share/applications/kinescope.desktop
try "the desktop opens recordings with it" \
    grep -q '^application/x-kinescope-recording=kinescope.desktop' /usr/share/applications/mimeinfo.cache
type=application/x-kinescope-recording
is "the type of a recording by its name" $type xdg-mime query filetype "$sample"
cp "$sample" "$work/unnamed"
is "the type of a recording by its first bytes" $type xdg-mime query filetype "$work/unnamed"

for verb in $(kinescope man --markdown | sed -n 's/^#### `\([a-z-]*\)`$/\1/p'); do
    man -w "kinescope-$verb" >/dev/null 2>&1 || fail "there is no man page of kinescope $verb"
done
try "man finds the pages of all verbs" man -w kinescope-replay
try "man shows a page" man -P cat kinescope-replay
[ -s /usr/share/bash-completion/completions/kinescope ] || fail "the completions for bash are missing"

try "apt removes the package" apt-get purge -y -q kinescope
left=$(find /usr -name '*kinescope*' | head -n 5)
[ -z "$left" ] || fail "files are left behind: $left"
ok "nothing is left behind"
