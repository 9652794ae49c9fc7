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

# Packages by purpose. A C compiler links and builds a few crates' C and assembly; certificates let cargo download.
BUILD_PACKAGES="gcc libc6-dev ca-certificates"
WINDOW_PACKAGES="libxcursor1 libxi6 libxkbcommon-x11-0 libgl1 libgl1-mesa-dri mesa-vulkan-drivers"
OFFSCREEN_PACKAGES="mesa-vulkan-drivers"
TEST_PACKAGES="xvfb xdotool imagemagick python3 git libegl1"
# Mesa's own build: generators of parsers, the libraries that its loader and its driver link.
MESA_PACKAGES="gcc g++ libc6-dev ninja-build pkg-config flex bison libdrm-dev zlib1g-dev libzstd-dev libudev-dev libelf-dev
    python3 python3-venv xz-utils"

# Seconds since a moment, for people.
took() { echo "$(($(date +%s) - $1)) s"; }
