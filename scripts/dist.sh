#!/bin/sh
# make dist: a release build as packages in target/dist: an archive that unpacks into any prefix, a Debian package, and
# the agent as one static executable for each machine.
# Use: scripts/dist.sh
# KINESCOPE_DIST_PROFILE=dev packages a development build, to test packages without the wait for a release build.
# KINESCOPE_DIST_AGENTS="x86_64 arm64" names the machines of the static agents; it may be empty.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/board/machines.sh

profile=${KINESCOPE_DIST_PROFILE:-release}
agents=${KINESCOPE_DIST_AGENTS-x86_64 arm64}
case $(uname -m) in
    x86_64) deb_machine=amd64 ;;
    aarch64) deb_machine=arm64 ;;
    *) die "$(uname -m): packages are made on x86_64 and aarch64 alone" ;;
esac
archive_machine=$(uname -m)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' Cargo.toml)
[ -n "$version" ] || die "Cargo.toml: [workspace.package] has no version"

need_cargo
need_space 15
# shellcheck disable=SC2086 # a list of words
{
    read_installed $BUILD_PACKAGES
    need_packages "to build (a linker, C for a few crates, certificates for downloads)" $BUILD_PACKAGES
}
install_packages
for tool in dpkg-deb readelf; do
    command -v $tool >/dev/null 2>&1 || die "$tool is missing: a Debian package needs it (packages dpkg and binutils)"
done

built=${CARGO_TARGET_DIR:-target}
dist=$built/dist
work=$dist/work
rm -rf "$dist"
mkdir -p "$work"
# One time for every file, so that the same commit gives the same packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

start=$(date +%s)
say "building the programs and the recorders' libraries (profile $profile)"
# Users' programs have Vulkan beside OpenGL; a package of a development build takes what is built.
features=""
[ "$profile" != release ] || features="--features kinescope/wgpu"
# shellcheck disable=SC2086 # a list of words
cargo build --locked --quiet --profile "$profile" $features \
    -p kinescope -p kinescope-agent -p kinescope-worker -p kinescope-panfrost -p kinescope-cuda -p kinescope-nvidia \
    -p kinescope-remote-cuda \
    -p kinescope-remote-cudart-12 -p kinescope-remote-cudart-13 \
    -p kinescope-remote-cublas-12 -p kinescope-remote-cublas-13 -p kinescope-remote-curand
bin=$built/$(profile_folder "$profile")

# The static agents have a profile of their own, which `make board` uses too.
agent_profile=board
[ "$profile" = release ] || agent_profile=$profile
for arch in $agents; do
    scripts/board/agent.sh "$arch" "$agent_profile"
    machine "$arch"
    agent=$dist/kinescope-agent-$version-${rust%%-*}-linux
    install -m 755 "$built/$rust/$(profile_folder "$agent_profile")/kinescope-agent" "$agent"
    if LC_ALL=C readelf -d "$agent" | grep -q '(NEEDED)'; then die "$agent is not static"; fi
done
say "built in $(took "$start")"

# third_party: the crates within the programs with their licences, then each licence text once.
third_party() {
    texts=$work/texts
    mkdir -p "$texts"
    cargo tree --locked -p kinescope -p kinescope-agent -p kinescope-worker -p kinescope-panfrost -p kinescope-cuda \
        -p kinescope-remote-cuda -p kinescope-remote-cudart-12 -p kinescope-remote-cudart-13 \
        -p kinescope-remote-cublas-12 -p kinescope-remote-cublas-13 -p kinescope-remote-curand \
        -e normal --prefix none --format '{p} {l}' >"$work/tree"
    # Crates of this workspace stand with their path.
    grep -v ' (/' "$work/tree" | sed 's/ (\*)$//; s/ (proc-macro)//' | sort -u >"$work/crates"
    echo "Kinescope contains these crates."
    echo
    while read -r name number licence; do
        echo "$name ${number#v}: $licence"
        for text in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name-${number#v}"/[Ll][Ii][Cc][Ee][Nn][CcSs][Ee]*; do
            [ -f "$text" ] || continue
            sum=$(md5sum <"$text" | cut -d ' ' -f 1)
            [ -e "$texts/$sum" ] || cp "$text" "$texts/$sum"
            echo "$name" >>"$texts/$sum.names"
        done
    done <"$work/crates"
    for names in "$texts"/*.names; do
        [ -e "$names" ] || continue
        echo
        echo "---- licence text of: $(sort -u "$names" | tr '\n' ' ')"
        echo
        cat "${names%.names}"
    done
}

# tree PREFIX: all files of an installation, as they lie below /usr or another prefix.
tree() {
    mkdir -p "$1/bin" "$1/lib/kinescope" "$1/share/man/man1" "$1/share/applications" "$1/share/mime/packages" \
        "$1/share/kinescope/sample-traces" "$1/share/doc/kinescope" "$1/share/bash-completion/completions" \
        "$1/share/fish/vendor_completions.d" "$1/$zsh_functions"
    cp "$bin/kinescope" "$bin/kinescope-agent" "$bin/kinescope-worker" "$1/bin/"
    cp "$bin/libkinescope_panfrost.so" "$bin/libkinescope_cuda.so" "$bin/libkinescope_nvidia.so" \
        "$bin/libkinescope_remote_cuda.so" "$bin/libkinescope_remote_cudart_12.so" \
        "$bin/libkinescope_remote_cudart_13.so" "$bin/libkinescope_remote_cublas_12.so" \
        "$bin/libkinescope_remote_cublas_13.so" "$bin/libkinescope_remote_curand.so" "$1/lib/kinescope/"
    if [ "$profile" != release ]; then
        strip --strip-unneeded "$1/bin/"* "$1/lib/kinescope/"*
    fi
    for program in kinescope kinescope-agent kinescope-worker; do
        "$bin/$program" man "$1/share/man/man1" >/dev/null
        "$bin/$program" completions bash >"$1/share/bash-completion/completions/$program"
        "$bin/$program" completions fish >"$1/share/fish/vendor_completions.d/$program.fish"
        "$bin/$program" completions zsh >"$1/$zsh_functions/_$program"
    done
    gzip -9n "$1/share/man/man1/"*.1
    cp assets/desktop/kinescope.desktop "$1/share/applications/"
    cp assets/desktop/kinescope.xml "$1/share/mime/packages/"
    for picture in assets/desktop/kinescope-*.png; do
        size=${picture##*-}
        size=${size%.png}
        mkdir -p "$1/share/icons/hicolor/${size}x$size/apps"
        cp "$picture" "$1/share/icons/hicolor/${size}x$size/apps/kinescope.png"
    done
    mkdir -p "$1/share/icons/hicolor/scalable/apps"
    cp assets/desktop/kinescope.svg "$1/share/icons/hicolor/scalable/apps/"
    cp sample-traces/vecadd.kine sample-traces/digits.kine "$1/share/kinescope/sample-traces/"
    cp README.md LICENSE-MIT LICENSE-APACHE "$1/share/doc/kinescope/"
    for licence in assets/fonts/*OFL.txt assets/fonts/*LICENSE.txt; do
        cp "$licence" "$1/share/doc/kinescope/"
    done
    cp "$work/third-party.txt" "$1/share/doc/kinescope/"
}

# finish FOLDER: permissions and times that do not depend on this machine.
finish() {
    find "$1" -type d -exec chmod 755 {} +
    find "$1" -type f -exec chmod 644 {} +
    chmod 755 "$2"/bin/*
    find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

third_party >"$work/third-party.txt"

name=kinescope-$version-$archive_machine-linux
zsh_functions=share/zsh/site-functions
tree "$work/$name"
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$work/$name/"
finish "$work/$name" "$work/$name"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work" -cf - "$name" |
    gzip -9n >"$dist/$name.tar.gz"

# package_of LIBRARY: the Debian package of a library that the programs link.
package_of() {
    case $1 in
        libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | ld-linux-*) echo "libc6 (>= $glibc)" ;;
        libgcc_s.so.1) echo libgcc-s1 ;;
        *) die "scripts/dist.sh names no Debian package for $1, which a program links" ;;
    esac
}

deb=$work/deb
zsh_functions=share/zsh/vendor-completions
tree "$deb/usr"
gzip -9nc CHANGELOG.md >"$deb/usr/share/doc/kinescope/changelog.gz"
rm "$deb/usr/share/doc/kinescope/LICENSE-MIT" "$deb/usr/share/doc/kinescope/LICENSE-APACHE"
{
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo "Upstream-Name: kinescope"
    echo
    echo "Files: *"
    sed -n 's/^Copyright (c) /Copyright: /p' LICENSE-MIT | head -n 1
    echo "License: MIT or Apache-2.0"
    echo "Comment: The licences of the embedded fonts and of the crates within the programs are in files beside this one."
    echo
    echo "License: MIT"
    sed 's/^$/./; s/^/ /' LICENSE-MIT
    echo
    echo "License: Apache-2.0"
    echo " On Debian systems the text is in /usr/share/common-licenses/Apache-2.0."
} >"$deb/usr/share/doc/kinescope/copyright"
finish "$deb" "$deb/usr"
linked="$deb/usr/bin/kinescope $deb/usr/bin/kinescope-agent $deb/usr/bin/kinescope-worker $deb/usr/lib/kinescope/*.so"
# shellcheck disable=SC2086 # a list of files
{
    glibc=$(LC_ALL=C readelf --version-info --wide $linked | sed -n 's/.*GLIBC_\([0-9][0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
    LC_ALL=C readelf -d $linked | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' | sort -u >"$work/needed"
}
[ -n "$glibc" ] || die "readelf names no version of glibc in $linked"
while read -r library; do package_of "$library"; done <"$work/needed" >"$work/depends"
depends=$(sort -u "$work/depends" | tr '\n' ',' | sed 's/,$//; s/,/, /g')
recommends=$(printf '%s' "$WINDOW_PACKAGES" | sed 's/  */, /g')
mkdir -m 755 "$deb/DEBIAN"
(cd "$deb" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$deb/DEBIAN/md5sums"
cat >"$deb/DEBIAN/control" <<CONTROL
Package: kinescope
Version: $version
Architecture: $deb_machine
Maintainer: the Kinescope authors <kinescope@invalid>
Installed-Size: $(du -sk --apparent-size "$deb/usr" | cut -f 1)
Section: devel
Priority: optional
Depends: $depends
Recommends: $recommends
Suggests: qemu-system-x86
Description: inspect, edit and replay recordings of GPU work
 Kinescope records what a driver did to a GPU and shows it on one timeline:
 register accesses, page tables, commands and bytes of memory. It replays the
 work with other inputs on a board, an NVIDIA GPU, a device in QEMU, or a
 simulated Mali. The package holds the window, the command line, the agent and
 the recorders' libraries.
 .
 The recommended packages are what the window and its pictures need; the
 command line works without them.
CONTROL
chmod 644 "$deb/DEBIAN/md5sums" "$deb/DEBIAN/control"
dpkg-deb --root-owner-group -Zxz --build "$deb" "$dist/kinescope_${version}_$deb_machine.deb" >/dev/null

rm -rf "$work"
sums=$(cd "$dist" && sha256sum -- *)
say "$sums" >"$dist/SHA256SUMS"
say "packages in $dist, made in $(took "$start"):"
(cd "$dist" && du -h --apparent-size -- *)
