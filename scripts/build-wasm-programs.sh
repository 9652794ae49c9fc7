#!/bin/sh
# Builds the test programs in tests/wasm/programs/: NAME.c gives NAME.wasm with clang 19 and the C library of WASI,
# NAME.rs with Rust's standard library.
#
# The compilers come from Debian's packages, unpacked below WASI_ROOT (default: target/wasi); nothing is installed.
# usage: scripts/build-wasm-programs.sh [NAME..]
set -eu
repository=$(cd "$(dirname "$0")/.." && pwd)
root=${WASI_ROOT:-$repository/target/wasi}
c_packages='clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32 libclang-common-19-dev libclang1-19 libclang-cpp19 libllvm19 libz3-4'
# The compiler of Debian's security updates, with the sources of its standard library: 137 MB, 850 MB unpacked.
rust_version=1.96
rust_packages="rustc-web libstd-rust-web-$rust_version libstd-rust-web-dev rust-web-src libllvm22"
llvm=$root/usr/lib/llvm-19

# unpack FILE PACKAGE..: unpacks the packages unless FILE exists.
unpack() {
    [ ! -e "$root/$1" ] || return 0
    shift
    mkdir -p "$root/packages"
    (cd "$root/packages" && apt-get download "$@" && for p in *.deb; do dpkg -x "$p" "$root"; rm "$p"; done)
}

report() { echo "$1.wasm: $(wc -c <"$1.wasm") bytes"; }

# The names of functions stay in the file: traps name their function.
compile() {
    name=$1
    initial=$2
    shift 2
    LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu:$llvm/lib" "$llvm/bin/clang" --target=wasm32-wasi \
        --sysroot="$root/usr" -fuse-ld="$llvm/bin/wasm-ld" -std=c17 -Wall -Wextra -O2 \
        -mbulk-memory -mnontrapping-fptoint -msign-ext \
        -Wl,--strip-debug -Wl,-z,stack-size=16384 -Wl,--initial-memory="$initial" \
        -Wl,--max-memory=16777216 -o "$name.wasm" "$@"
    report "$name"
}

# Cargo builds the standard library too: Debian has none for this target.
compile_rust() {
    name=$1
    initial=$2
    unpack usr/bin/rustc $rust_packages
    sources=$(echo "$root"/usr/src/rustc-$rust_version.*/library)
    package=$root/programs/$name
    mkdir -p "$package/src"
    cp "$name.rs" "$package/src/main.rs"
    printf '%s\n' '[package]' "name = \"$name\"" 'version = "0.0.0"' 'edition = "2024"' '[workspace]' \
        '[profile.release]' 'opt-level = "s"' 'lto = true' 'panic = "abort"' 'codegen-units = 1' >"$package/Cargo.toml"
    for tool in usr/bin/rustc usr/lib/llvm-19/bin/wasm-ld; do
        printf '#!/bin/sh\nexport LD_LIBRARY_PATH=%s\nexec %s "$@"\n' \
            "$root/usr/lib/x86_64-linux-gnu:$llvm/lib" "$root/$tool" >"$package/${tool##*/}.sh"
        chmod +x "$package/${tool##*/}.sh"
    done
    libraries=$root/usr/lib/wasm32-wasi
    (
        cd "$package"
        export RUSTC="$package/rustc.sh" RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT="$sources"
        export CARGO_TARGET_DIR="$package/target" CARGO_TARGET_WASM32_WASIP1_LINKER="$package/wasm-ld.sh"
        flags="-C link-self-contained=no -C linker-flavor=wasm-ld -L native=$libraries"
        flags="$flags -C link-arg=$libraries/crt1-command.o -C link-arg=-zstack-size=65536"
        flags="$flags -C link-arg=--initial-memory=$initial -C link-arg=--max-memory=16777216 -C link-arg=--strip-debug"
        # Texts of panics name files: without the folders of this machine, each machine builds the same program.
        flags="$flags --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=registry"
        flags="$flags --remap-path-prefix=$package=$name --remap-path-prefix=$sources=library"
        export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="$flags"
        cargo build --release -Z build-std=std,panic_abort --target wasm32-wasip1
    )
    cp "$package/target/wasm32-wasip1/release/$name.wasm" "$name.wasm"
    chmod 644 "$name.wasm"
    report "$name"
}

unpack usr/lib/llvm-19/bin/clang $c_packages
cd "$repository/tests/wasm/programs"
for name in ${*:-scrypt pbkdf2 blur blockhash lz4 histogram wordcount filter groups}; do
    case $name in
        scrypt) compile scrypt 262144 scrypt.c sha256.c ;;
        pbkdf2) compile pbkdf2 131072 pbkdf2.c sha256.c ;;
        groups) compile_rust groups 196608 ;;
        *) compile "$name" 131072 "$name.c" ;;
    esac
done
