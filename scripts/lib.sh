# Shared by the scripts here: messages, the Rust toolchain, system packages. Sourced, not run.
# POSIX sh: a minimal machine has nothing else.

say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 2; }

# The toolchain that rust-toolchain.toml names; one line that says what to do when it is not there.
need_cargo() {
    want=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)
    if ! command -v cargo >/dev/null 2>&1; then
        [ -x "$HOME/.cargo/bin/cargo" ] || die "cargo is missing: install rustup from https://rustup.rs, then run this again"
        PATH="$HOME/.cargo/bin:$PATH"; export PATH
    fi
    have=$(cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9][0-9.]*\).*/\1/p')
    if [ -z "$have" ]; then
        die "Rust $want is not installed: run 'rustup toolchain install $want', then this again"
    fi
    oldest=$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)
    if [ "$oldest" != "$want" ]; then
        die "cargo $have is older than $want: run 'rustup toolchain install $want' (rustup: https://rustup.rs), then this again"
    fi
}

# need_space GIGABYTES: one line when the disk has less than that left for this folder, before an hour goes into finding
# out. Not an end: what is built already takes no space again.
need_space() {
    left=$(df -Pk . 2>/dev/null | awk 'NR == 2 { printf "%d", $4 / 1000000 * 1.024 }')
    if [ -n "$left" ] && [ "$left" -lt "$1" ]; then
        say "little disk space: $left GB are free here, and a full build takes up to $1 GB (target/); 'cargo clean' removes an earlier build"
    fi
}

# need_packages "WHY" PACKAGE...: remembers what is missing. install_packages then installs it.
missing=""
need_packages() {
    why=$1; shift
    lack=""
    for p in "$@"; do
        case " $installed " in *" $p "*) ;; *) lack="$lack $p" ;; esac
    done
    if [ -n "$lack" ]; then
        say "missing, $why:$lack"
        missing="$missing$lack"
    fi
}

# One call of dpkg for all questions: it takes longer than the questions.
read_installed() {
    installed=""
    if command -v dpkg-query >/dev/null 2>&1; then
        # shellcheck disable=SC2016 # dpkg's own variables
        installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' | tr '\n' ' ')
    fi
}

install_packages() {
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        say "this machine has no apt-get: install the packages above by its own means if something below fails"
        return 0
    fi
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || die "install them as root: apt-get install -y --no-install-recommends$missing"
        as_root="sudo"
        say "installing them with sudo apt-get"
    else
        say "installing them with apt-get"
    fi
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    # shellcheck disable=SC2086 # lists of words
    { $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; } >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        die "apt-get could not install:$missing (its whole output: $log)"
    }
    rm -f "$log"
}

# install_qemu "WHY" x86|arm...: QEMU for machines of these kinds. Recordings are compared on devices as QEMU 10 emulates
# them. Where Debian's own suites have an older one, or cannot give it (bookworm's conflicts with the tools of a newer QEMU
# that are installed already), it comes from backports, through a source list and indexes that are gone afterwards. Whoever
# calls this looks for the programs afterwards: tests of them are skipped where there are none.
lack_qemu() {
    lack=""
    for kind in "$@"; do
        case $kind in
            x86) command -v qemu-system-x86_64 >/dev/null 2>&1 || lack="$lack qemu-system-x86" ;;
            arm) command -v qemu-system-aarch64 >/dev/null 2>&1 || lack="$lack qemu-system-arm" ;;
        esac
    done
    [ -n "$lack" ]
}
install_qemu() {
    why=$1; shift
    lack_qemu "$@" || return 0
    packages=${lack# }
    say "missing, $why: $packages"
    if ! command -v apt-get >/dev/null 2>&1; then
        say "this machine has no apt-get: install QEMU ($packages) by its own means"
        return 0
    fi
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || { say "install it as root: apt-get install --no-install-recommends $packages"; return 0; }
        as_root="sudo"
    fi
    how="$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends"
    lists=$(mktemp -d)
    # shellcheck disable=SC2086 # lists of words
    {
        $as_root apt-get update -q >"$lists/log" 2>&1
        # shellcheck disable=SC1091 # the system's own
        suite=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}")
        version=$(apt-cache policy "${packages%% *}" 2>/dev/null | sed -n 's/^  Candidate: //p')
        if [ -n "$suite" ] && ! { dpkg --compare-versions "$version" ge 1:10 &&
            apt-get install -s -q --no-install-recommends $packages >>"$lists/log" 2>&1; }; then
            from="$suite-backports, for this call only"
            archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/*$')
            mkdir -p "$lists/lists/partial"
            for part in "$suite" "$suite-updates" "$suite-backports"; do
                echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${archive:-http://deb.debian.org/debian} $part main"
            done >"$lists/sources.list"
            with="-o Dir::Etc::sourcelist=$lists/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$lists/lists
                -o APT::Sandbox::User=root"
            $as_root apt-get $with update -q >>"$lists/log" 2>&1 &&
                $how $with -t "$suite-backports" $packages >>"$lists/log" 2>&1
        fi
        if lack_qemu "$@"; then
            from="this machine's suites"
            $how $packages >>"$lists/log" 2>&1
        fi
    }
    if lack_qemu "$@"; then
        tail -n 5 "$lists/log" >&2
        say "QEMU could not be installed:$lack"
    else
        say "installed $packages with ${as_root:+sudo }apt-get from $from"
    fi
    $as_root rm -rf "$lists"
}

# Packages by purpose. A C compiler links and builds a few crates' C and assembly; certificates let cargo download.
BUILD_PACKAGES="gcc libc6-dev ca-certificates"
WINDOW_PACKAGES="libxcursor1 libxi6 libxkbcommon-x11-0 libgl1 libgl1-mesa-dri mesa-vulkan-drivers libegl1"
OFFSCREEN_PACKAGES="libegl1 libgl1-mesa-dri"
# Readers of the project's formats that are written in another language, and a Python program under a recorder.
READER_PACKAGES="python3"
# Exported programs are built for arm64 and run there, in QEMU's emulation of one program.
ARM64_PACKAGES="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
# nats-server: the broker of campaigns over several machines.
TEST_PACKAGES="xvfb xdotool imagemagick python3 python3-venv git nats-server"
# Mesa's own build: generators of parsers, the libraries that its loader and its driver link.
MESA_PACKAGES="gcc g++ libc6-dev ninja-build pkg-config flex bison libdrm-dev zlib1g-dev libzstd-dev libudev-dev libelf-dev
    python3 python3-venv xz-utils"

# Seconds since a moment, for people.
took() { echo "$(($(date +%s) - $1)) s"; }

# profile_folder PROFILE: the folder in target/ that cargo builds a profile into.
profile_folder() { case $1 in dev) echo debug ;; *) echo "$1" ;; esac; }
