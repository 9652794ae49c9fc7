#!/bin/sh
# The rooms' arrows: who may know whom, and that what is named is used. Reads cargo's own dependency graph, manifests
# and sources; builds nothing.
cd "$(dirname "$0")/.." || exit 2
bad=0

tree() { cargo tree --locked -p "$1" -e normal --prefix none --format '{p}' | awk '{ print $1 }' | sort -u; }

# may_not CRATE NAME...: none of NAME is among what CRATE is made of.
may_not() {
    crate=$1; shift
    names=$(tree "$crate") || { echo "cargo tree -p $crate failed"; bad=1; return; }
    [ -n "$names" ] || { echo "cargo tree -p $crate lists nothing"; bad=1; return; }
    for name in "$@"; do
        if echo "$names" | grep -qx "$name"; then
            echo "$crate depends on $name (see: cargo tree -p $crate -e normal -i $name)"
            bad=1
        fi
    done
}

may_not kinescope-agent replay-program arrow-array parquet egui eframe trace-query kinescope kinescope-files kinescope-session
may_not trace-core trace-import replay-engine replay-core device-mali driver-mali panfrost-node trace-query kinescope kinescope-agent egui eframe parquet
may_not trace-import replay-engine replay-core device-mali driver-mali panfrost-node trace-query kinescope kinescope-agent egui eframe parquet
may_not trace-waves trace-import replay-engine device-mali driver-mali trace-query kinescope egui eframe parquet
may_not bifrost trace-core trace-import replay-engine device-mali driver-mali kinescope
may_not command-pages trace-core replay-engine replay-core kinescope kinescope-files kinescope-session kinescope-agent egui eframe parquet
may_not wasm-system trace-core replay-engine kinescope wasmi wasm-ptx
may_not wasm-run trace-core replay-engine kinescope wasmi wasm-ptx wasm-cpu
may_not wasm-cpu trace-core replay-engine kinescope wasm-ptx
may_not wasm-gpu trace-core replay-engine kinescope wasmi wasm-cpu
may_not wasm-text trace-core replay-engine kinescope wasmi wasm-run wasm-ptx
may_not wasm-recording trace-import replay-engine kinescope wasmi wasm-cpu wasm-gpu wasm-ptx
may_not wasm-agent wasmi wasm-cpu kinescope kinescope-agent kinescope-session device-mali replay-cuda egui eframe parquet
may_not cuda-code trace-core trace-import replay-engine device-mali driver-mali kinescope
may_not wasm-ptx ptx-interpreter cuda-code cuda-driver trace-core replay-engine kinescope
may_not ptx-interpreter wasm-ptx cuda-code cuda-driver trace-core replay-engine kinescope
may_not nvidia-channel trace-core trace-import replay-engine device-mali driver-mali kinescope
may_not trace-query trace-import replay-engine device-mali driver-mali kinescope egui eframe
may_not replay-engine wasmparser wasm-run wasm-gpu wasm-agent replay-cuda cuda-driver device-mali driver-mali linux-recorder panfrost-node trace-query kinescope kinescope-agent egui eframe parquet
may_not replay-cuda device-mali driver-mali linux-recorder panfrost-node trace-query kinescope kinescope-agent egui eframe parquet
may_not device-mali driver-mali panfrost-node trace-query kinescope kinescope-agent egui eframe parquet
may_not replay-program device-mali driver-mali panfrost-node trace-query kinescope kinescope-agent egui eframe parquet
may_not driver-mali panfrost-node trace-query kinescope kinescope-agent egui eframe parquet
# Recorders stand below the programs and above the Mali crates; the one of a Linux machine knows recordings alone.
may_not linux-recorder replay-engine replay-core device-mali driver-mali panfrost-node trace-query kinescope kinescope-agent egui eframe parquet
may_not panfrost-node kinescope-panfrost trace-query kinescope kinescope-agent kinescope-files kinescope-session egui eframe parquet
may_not kinescope-panfrost trace-query kinescope kinescope-agent kinescope-files kinescope-session egui eframe parquet
may_not kinescope-nvidia trace-core replay-engine replay-core trace-query kinescope kinescope-agent kinescope-files kinescope-session egui eframe parquet
may_not kinescope-remote-cuda trace-core replay-engine kinescope kinescope-agent snow serde_json
may_not kinescope-remote-cudart trace-core replay-engine kinescope kinescope-agent remote-calls remote-ring
may_not kinescope-remote-libraries trace-core replay-engine kinescope kinescope-agent remote-ring kinescope-remote-cuda
may_not remote-worker trace-core replay-engine kinescope kinescope-agent kinescope-remote-cuda
may_not remote-relay trace-core replay-engine kinescope kinescope-agent kinescope-remote-cuda remote-worker snow
may_not remote-agent kinescope kinescope-agent kinescope-session kinescope-remote-cuda replay-cuda device-mali egui eframe parquet
may_not remote-calls remote-ring trace-core replay-engine kinescope
may_not kinescope-files replay-engine device-mali driver-mali trace-query kinescope kinescope-session egui eframe parquet
# The printer of WebAssembly text brings anyhow; the session itself names only typed errors.
may_not kinescope-session kinescope kinescope-agent linux-recorder panfrost-node egui eframe clap
if grep -q "^anyhow" app/session/Cargo.toml; then echo "kinescope-session names anyhow"; bad=1; fi
may_not kinescope-campaign kinescope kinescope-agent tokio linux-recorder panfrost-node egui eframe clap
may_not kinescope-pipeline kinescope kinescope-agent linux-recorder panfrost-node egui eframe clap
may_not gles-programs replay-engine device-mali driver-mali trace-query kinescope egui eframe parquet
may_not kinescope kinescope-agent kinescope-panfrost panfrost-node whole-program-tests fuzz-targets

# Inside the program too: each room names those before it, none behind it. Reads the sources.
rooms="theme panels window commands cli"
behind=" $rooms"
for room in $rooms; do
    behind=${behind#" $room"}
    [ -n "$behind" ] || break
    files=$(find "app/src/$room" -name '*.rs')
    [ -n "$files" ] || { echo "app/src/$room holds no Rust"; bad=1; continue; }
    names=$(echo $behind | tr ' ' '|')
    for file in $files "app/src/$room.rs"; do
        [ -e "$file" ] || continue
        # `crate::room`, `super::room`, and a room in braces after either, however the lines are broken.
        found=$(tr '\n' ' ' <"$file" | grep -oE "(crate|super)::(\{[^;]*[^A-Za-z0-9_:])?($names)[^A-Za-z0-9_]" | head -n 3)
        [ -z "$found" ] || { echo "$file names a room above its own ($(echo $behind)):" $found; bad=1; }
    done
done

# Groups of panels: each names `common` and itself; `sides` names the others too (docs/decisions/0055-panel-groups.md).
groups="recording gpu contents api_trace driver_trace runs compare wasm"
for group in common sides $groups; do
    others=" sides log table views"
    case $group in
        sides) others="compare log table views" ;;
        *) for other in $groups; do [ "$other" = "$group" ] || others="$others $other"; done ;;
    esac
    [ -e "app/src/panels/$group.rs" ] || { echo "app/src/panels/$group.rs is missing"; bad=1; continue; }
    names=$(echo $others | tr ' ' '|')
    for file in $(find "app/src/panels/$group" -name '*.rs') "app/src/panels/$group.rs"; do
        found=$(tr '\n' ' ' <"$file" | grep -oE "panels::(\{[^;]*[^A-Za-z0-9_:])?($names)[^A-Za-z0-9_]" | head -n 3)
        [ -z "$found" ] || { echo "$file names a group that is not below its own ($(echo $others)):" $found; bad=1; }
    done
done

# What a manifest names, its own sources use: code that is gone leaves no dependency behind.
for member in $(awk '/^members = \[/ { on = 1; next } on && /^\]/ { exit } on' Cargo.toml | tr -d '", '); do
    named=$(awk '/^\[/ { on = /^\[(dev-|build-)?dependencies\]$/ } on && /^[a-z]/ { sub(/[ .=].*/, ""); print }' "$member/Cargo.toml")
    # The examples that use them are in the READMEs.
    [ "$member" != tests/readmes ] || continue
    set --
    for folder in src client tests benches examples fuzz_targets; do
        [ -d "$member/$folder" ] || continue
        set -- "$@" "$member/$folder"
        # A module that lies elsewhere is compiled with the crate that names it.
        for elsewhere in $(grep -rE --include='*.rs' '^#\[path = "' "$member/$folder" | sed -E 's|[^/]*\.rs:#\[path = "([^"]*)".*|\1|'); do
            set -- "$@" "$elsewhere"
        done
    done
    [ ! -e "$member/build.rs" ] || set -- "$@" "$member/build.rs"
    for dependency in $named; do
        name=$(echo "$dependency" | tr - _)
        grep -rqE --include='*.rs' "(^|[^A-Za-z0-9_])$name(::|;| as )" "$@" || {
            echo "$member/Cargo.toml names $dependency, and nothing in $* does"
            bad=1
        }
    done
done

# One feature resolution: what `make run` builds, `make test` builds with the same features, so that nothing is built
# twice. A crate may occur with several feature sets, for this machine and for macros; one of them must agree.
features() {
    cargo tree --locked -e "$1" --prefix none --format '{p} [{f}]' $2 | sed 's/ (\*)$//' | grep '\[' | sort -u
}
run=$(features normal "-p kinescope -p kinescope-agent -p kinescope-panfrost")
common=$(features normal,dev "--workspace --exclude replay-bare --exclude export-readers --exclude wasm-tests --exclude kinescope-python")
[ -n "$run" ] && [ -n "$common" ] || { echo "cargo tree lists no features"; bad=1; }
differing=$(printf '%s\n@\n%s\n' "$common" "$run" | awk '
    /^@$/ { second = 1; next }
    !second { known[$0] = 1; next }
    { crate = $0; sub(/ \[.*/, "", crate); seen[crate] = 1; if ($0 in known) agrees[crate] = 1; else line[crate] = $0 }
    END { for (crate in seen) if (!(crate in agrees)) print line[crate] }')
[ -z "$differing" ] || { echo "built twice, because tests ask for other features (see: cargo tree -e features -i CRATE):"; echo "$differing"; bad=1; }

# The executor knows nobody: itself is the whole list.
core=$(tree replay-core)
[ "$core" = replay-core ] || { echo "replay-core must have no dependency, it has:" $core; bad=1; }
exit $bad
