# apt with a source list, indexes and a record of installed packages of its own: this machine's stay as they are, and it
# takes packages of another architecture without knowing that architecture. Sourced after scripts/lib.sh, not run.

# private_apt FOLDER ARCH...: prepares it in an empty folder, and reads the indexes.
private_apt() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
        die "boards in a box are made of Debian packages: this needs apt-get and dpkg-deb"
    apt_dir=$1; shift
    mkdir -p "$apt_dir/lists/partial" "$apt_dir/cache/archives/partial" "$apt_dir/debs"
    # The release of this machine where it is Debian, from the archives that it uses; otherwise Debian 12.
    # shellcheck disable=SC1091 # the system's own
    suite=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}") || true
    known=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' 2>/dev/null) || true
    if [ -z "$suite" ]; then suite=bookworm known=""; fi
    site() { printf '%s\n' "$known" | awk -v s="$1" '$2 == s { print $1; exit }'; }
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e "$keys" ] || die "$keys is missing: install the package debian-archive-keyring, then run this again"
    main=$(site "$suite"); main=${main:-http://deb.debian.org/debian}
    security=$(site "$suite-security"); security=${security:-http://deb.debian.org/debian-security}
    for source in "$main $suite" "$main $suite-updates" "$security $suite-security"; do
        echo "deb [signed-by=$keys] $source main"
    done >"$apt_dir/sources.list"
    {
        echo "APT::Architecture \"$1\";"
        echo "APT::Architectures { $(printf '"%s"; ' "$@")};"
        echo "Dir::Etc::sourcelist \"$apt_dir/sources.list\";"
        echo "Dir::Etc::sourceparts \"/dev/null\";"
        echo "Dir::State::lists \"$apt_dir/lists\";"
        echo "Dir::Cache \"$apt_dir/cache\";"
        echo "Dir::State::status \"/dev/null\";"
        echo "Acquire::Languages \"none\";"
        echo "APT::Sandbox::User \"$(id -un)\";"
    } >"$apt_dir/conf"
    apt_asked apt-get -q -o APT::Update::Error-Mode=any update
}

# apt_asked TOOL ARGUMENT...: runs one of apt's tools so; what it complains goes to a log, whose end is shown.
apt_asked() {
    APT_CONFIG=$apt_dir/conf "$@" 2>"$apt_dir/log" >"$apt_dir/out" || {
        tail -n 5 "$apt_dir/log" >&2
        die "Debian's packages could not be had from $main: is there a network?"
    }
}

# fetch_and_unpack INTO PACKAGE...: unpacked into a folder, not installed.
fetch_and_unpack() {
    into=$1; shift
    rm -f "$apt_dir"/debs/*
    here=$PWD
    cd "$apt_dir/debs"
    apt_asked apt-get -q download "$@"
    cd "$here"
    mkdir -p "$into"
    for deb in "$apt_dir"/debs/*.deb; do dpkg-deb -x "$deb" "$into"; done
}
