#!/bin/sh
# make mesa: build Mesa with the panfrost driver (OpenGL ES through EGL without a window system) into .mesa, once.
# Debian's packages for amd64 leave that driver out. `make test-mesa` and `kinescope record --with panfrost` use it.
# Use: scripts/mesa.sh            JOBS=N in the environment: compile with N at once (default: one for each core)
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

# One version, so that shaders come out the same everywhere: the source of Debian's bookworm-backports.
version=25.0.7
sha256=592272df3cf01e85e7db300c449df5061092574d099da275d19e97ef0510f8a6
options="-Dbuildtype=plain -Doptimization=1 -Db_ndebug=true -Dtools= -Dgallium-drivers=panfrost -Dvulkan-drivers=
    -Dplatforms= -Degl=enabled -Dgbm=enabled -Dgles1=disabled -Dgles2=enabled -Dopengl=true -Dglx=disabled
    -Dglvnd=disabled -Dllvm=disabled -Dgallium-rusticl=false -Dvideo-codecs= -Dshared-glapi=enabled
    -Dxmlconfig=disabled -Dvalgrind=disabled -Dlibunwind=disabled -Dlmsensors=disabled -Dlibdir=lib"

root=$PWD/.mesa
made=$root/made
want="$version $(printf '%s\n' "$options" | cksum | cut -d' ' -f1)"
if [ "$(cat "$made" 2>/dev/null)" = "$want" ] && [ -e "$root/install/lib/libEGL.so.1" ]; then
    say "Mesa $version with panfrost is in .mesa/install"
    exit 0
fi
mkdir -p "$root"

# shellcheck disable=SC2086 # lists of words
{
    read_installed $MESA_PACKAGES
    need_packages "to build Mesa" $MESA_PACKAGES
}
install_packages

# The source, by apt and from the archive that this machine already uses. The list with its source line is a temporary
# one with indexes of its own: the machine's own lists stay as they are.
tarball=$root/mesa_$version.orig.tar.xz
sum_ok() { printf '%s  %s\n' "$sha256" "$1" | sha256sum -c --status 2>/dev/null; }
if ! sum_ok "$tarball"; then
    command -v apt-get >/dev/null || die "no apt-get here: put Mesa's $version source (sha256 $sha256) at $tarball, then run this again"
    archive=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' 2>/dev/null |
        awk '$1 ~ /\/debian\/?$/ { print $1; exit }')
    [ -n "$archive" ] || die "apt knows no Debian archive: put Mesa's $version source (sha256 $sha256) at $tarball, then run this again"
    say "fetching Mesa $version's source from the Debian archive of this machine"
    apt=$(mktemp -d)
    trap 'rm -rf "$apt"' EXIT
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive bookworm-backports main" >"$apt/sources.list"
    with_list="-o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$apt/lists
        -o Dir::Cache=$apt/cache -o APT::Sandbox::User="
    # shellcheck disable=SC2086 # lists of words
    {
        apt-get $with_list update -qq
        uri=$(cd "$apt" && apt-get $with_list --print-uris --download-only source mesa 2>/dev/null |
            sed -n "s/^'\([^']*\)' mesa_$version\.orig\.tar\.xz .*/\1/p")
    }
    [ -n "$uri" ] || die "the archive no longer has Mesa $version: put its source (sha256 $sha256) at $tarball, then run this again"
    /usr/lib/apt/apt-helper download-file "$uri" "$tarball.part" "SHA256:$sha256" >"$root/fetch.log" 2>&1 || {
        tail -n 5 "$root/fetch.log" >&2
        die "could not fetch Mesa's source"
    }
    mv "$tarball.part" "$tarball"
    sum_ok "$tarball" || die "$tarball is not the expected source (sha256 $sha256)"
fi

start=$(date +%s)
source=$root/mesa-$version
if [ ! -e "$source/.unpacked" ]; then
    say "unpacking"
    rm -rf "$source"
    tar -xf "$tarball" -C "$root"
    touch "$source/.unpacked"
fi

# Its build system and what its generators import, in an environment of their own.
if [ ! -x "$root/python/bin/meson" ]; then
    python3 -m venv "$root/python" >"$root/python.log" 2>&1 || { tail -n 5 "$root/python.log" >&2; die "python3 cannot make an environment"; }
    "$root/python/bin/pip" install --quiet --disable-pip-version-check \
        meson==1.7.2 mako==1.3.10 packaging==25.0 pyyaml==6.0.2 >>"$root/python.log" 2>&1 ||
        { tail -n 5 "$root/python.log" >&2; die "pip could not install meson, mako, packaging and pyyaml"; }
fi
PATH="$root/python/bin:$PATH"; export PATH

# step WHAT COMMAND...: its output goes to a log, of which a failure shows the end.
step() {
    what=$1; shift
    say "$what"
    "$@" >"$root/build.log" 2>&1 || { tail -n 30 "$root/build.log" >&2; die "Mesa: $what: failed (the whole output: .mesa/build.log)"; }
}
build=$root/build
rm -f "$made"
again=""
[ ! -e "$build/build.ninja" ] || again=--reconfigure
# shellcheck disable=SC2086 # lists of words
step "configuring" meson setup $again "$build" "$source" $options --prefix="$root/install"
step "compiling, three to ten minutes on two cores" ninja -C "$build" -j "${JOBS:-$(nproc)}" install
[ -e "$root/install/lib/libEGL.so.1" ] || die "Mesa was built, but there is no libEGL.so.1 in .mesa/install/lib"
printf '%s\n' "$want" >"$made"
# What is left needs neither source nor objects (450 MB); the tarball stays for another build.
rm -rf "$source" "$build"
say "Mesa $version with panfrost is in .mesa/install, built in $(took "$start")"
