#!/bin/sh
# Proves that nothing installed by hand is needed: a Debian 12 minbase system in a folder, this repository cloned
# afresh into it, the Rust toolchain bound in, and `make run` there without a display. Needs root and debootstrap.
# Use: scripts/prove-bare.sh FOLDER [MAKE-TARGET...]      (default target: run)
#      scripts/prove-bare.sh FOLDER deb [FILE.deb]        (default file: the newest in target/dist)
# The folder keeps the system between calls; the clone is made anew each time. Only `make` is there beforehand.
# With `deb` nothing is built: the package of `make dist` is installed, used and removed by scripts/prove-deb.sh. What it
# depends on stays installed, so this mode needs a folder of its own.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

dir=${1:-}
[ -n "$dir" ] || die "usage: scripts/prove-bare.sh FOLDER [MAKE-TARGET...]"
shift
deb=""
if [ "${1:-}" = deb ]; then
    deb=${2:-$(find "${CARGO_TARGET_DIR:-target}/dist" -name 'kinescope_*.deb' 2>/dev/null | head -n 1)}
    [ -f "$deb" ] || die "there is no package ${deb:-in target/dist}: 'make dist' makes it"
fi
[ "$(id -u)" = 0 ] || die "a chroot needs root"
command -v debootstrap >/dev/null 2>&1 || die "debootstrap is missing: apt-get install debootstrap"
mirror=${DEBIAN_MIRROR:-}
cargo_home=${CARGO_HOME:-$HOME/.cargo}
rustup_home=${RUSTUP_HOME:-$HOME/.rustup}

if [ ! -e "$dir/etc/debian_version" ]; then
    say "making a minbase system in $dir${mirror:+ from $mirror}"
    debootstrap --variant=minbase --include=make bookworm "$dir" ${mirror:+"$mirror"} >"$dir.log" 2>&1 || {
        tail -n 5 "$dir.log" >&2
        die "debootstrap failed (its output: $dir.log)"
    }
fi
dir=$(cd "$dir" && pwd)

mounted=""
leave() {
    for m in $mounted; do umount "$m" || say "still mounted: $m"; done
}
trap leave EXIT
bind() {
    mkdir -p "$dir$2"
    mount --bind "$1" "$dir$2"
    [ "${3:-}" != ro ] || mount -o remount,bind,ro "$dir$2"
    mounted="$dir$2 $mounted"
}
if [ -z "$deb" ]; then
    bind "$rustup_home" /root/.rustup ro
    # Only what cargo itself needs: its programs, and the crates that are downloaded already.
    bind "$cargo_home" /root/.cargo
fi
mount -t proc proc "$dir/proc"; mounted="$dir/proc $mounted"
bind /dev /dev
mount -t tmpfs tmpfs "$dir/dev/shm" 2>/dev/null && mounted="$dir/dev/shm $mounted"
mount -t devpts -o ptmxmode=0666 devpts "$dir/dev/pts" 2>/dev/null && mounted="$dir/dev/pts $mounted"
cp /etc/resolv.conf "$dir/etc/resolv.conf"
cp /etc/hosts "$dir/etc/hosts"
# The machine's own way to the network: apt's settings, certificates and proxies.
for f in /etc/apt/apt.conf.d/*; do
    if grep -qi -E 'proxy|verify|cainfo' "$f"; then cp "$f" "$dir/etc/apt/apt.conf.d/"; fi
done
# A machine behind a proxy that signs for others names the certificates that it trusts by this variable.
ca=""
if [ -n "${SSL_CERT_FILE:-}" ] && [ -r "$SSL_CERT_FILE" ]; then
    ca=/root/trusted.crt
    cp "$SSL_CERT_FILE" "$dir$ca"
fi

start=$(date +%s)
# inside COMMAND...: runs a command in the bare system, with nothing of this one's environment but the way to the network.
inside() {
    # shellcheck disable=SC2086 # a list of words
    chroot "$dir" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
        PATH=/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        ${ca:+SSL_CERT_FILE="$ca"} ${ca:+CARGO_HTTP_CAINFO="$ca"} ${ca:+PIP_CERT="$ca"} \
        ${KINESCOPE_PROVE_ENV:-} \
        "$@"
}

if [ -n "$deb" ]; then
    rm -rf "$dir/root/prove"
    mkdir "$dir/root/prove"
    cp "$deb" "$dir/root/prove/kinescope.deb"
    cp scripts/prove-deb.sh "$dir/root/prove/"
    inside sh /root/prove/prove-deb.sh /root/prove/kinescope.deb
    say "$deb was installed, used and removed in $(took "$start")"
    exit 0
fi

rm -rf "$dir/root/kinescope"
git clone -q "file://$(pwd)" "$dir/root/kinescope"
say "cloned $(git log -1 --format='%h %s')"

start=$(date +%s)
inside make -C /root/kinescope "${@:-run}"
say "make ${*:-run} took $(took "$start")"
