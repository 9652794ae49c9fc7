#!/bin/sh
# make test-mesa: unmodified OpenGL ES compute programs on stock Mesa, recorded live on the software Mali: each checks
# what it computed against the CPU; then the recording alone is replayed and its outputs are checked again.
# The last line is "N passed, M failed".
# Then scenes beyond computing (`gles-scenes`): a program that draws is recorded and not disturbed, a texture of a common
# size has its texels, a shader without end is stopped. Last, the WebGPU program of docs/tutorials runs by PyPI's wgpu.
# Use: scripts/test-mesa.sh [PROGRAM…]       no PROGRAM: all of them (`gles-compute --list`), and the scenes
set -u
cd "$(dirname "$0")/.." || exit 2
. scripts/lib.sh

need_cargo
scripts/mesa.sh || exit 2
cargo build --locked --quiet -p kinescope -p kinescope-panfrost -p gles-programs || die "the programs do not build"
bin=target/debug
scenes=""
[ $# -gt 0 ] || scenes="draw texture endless"
[ $# -gt 0 ] || set -- $($bin/gles-compute --list | awk '{ print $1 }')
[ $# -gt 0 ] || die "gles-compute lists no programs"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# Shaders that another run left in Mesa's cache are not compiled: each run is to show the whole way.
export MESA_SHADER_CACHE_DISABLE=1
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/tmp}"
passed=0
failed=0

# step NAME COMMAND...: one check that passes or fails as a whole. Its output is shown when it fails.
step() {
    name=$1; shift
    if "$@" >"$out/log" 2>&1; then
        passed=$((passed + 1))
        say "ok      $name"
    else
        failed=$((failed + 1))
        tail -n 20 "$out/log"
        say "FAILED  $name"
        return 1
    fi
}

# replayed PROGRAM BOARD FILE: replays the recording with all its outputs copied out, and checks them.
replayed() {
    outputs=$($bin/kinescope info --json "$3" | python3 -c '
import json, sys
print(" ".join(b["name"] for b in json.load(sys.stdin)["buffers"] if b["role"] == "output"))')
    [ -n "$outputs" ] || { echo "the recording names no output"; return 1; }
    copy=""; check=""
    for output in $outputs; do
        copy="$copy --output $output=$out/$output.bin"
        check="$check $output=$out/$output.bin"
        rm -f "$out/$output.bin"
    done
    # shellcheck disable=SC2086 # lists of words
    $bin/kinescope replay "$3" --on "$2" $copy && $bin/gles-compute check "$1" $check
}

for program in "$@"; do
    for board in software:mali-g71 software:mali-g52; do
        file=$out/$program-${board#software:}.kine
        step "$program runs on $board, is recorded, and is right" \
            $bin/kinescope record --with panfrost --on "$board" -o "$file" -- $bin/gles-compute "$program" || continue
        step "$program replays on $board from the file alone, and is right" replayed "$program" "$board" "$file"
    done
done

# reported SCENE FILE: what the recording itself says of the scene's jobs, before any replay.
reported() {
    $bin/kinescope jobs --json "$2" >"$out/jobs.json" && python3 - "$1" "$out/jobs.json" <<'EOF'
import json, sys
scene, jobs = sys.argv[1], json.load(open(sys.argv[2]))
reported = [(j["type"], j["recorded"]["status"], j["recorded"]["computed"], j["recorded"]["reason"]) for j in jobs]
for t in reported:
    print(*t)
drawn = [t for t in reported if t[0] != "compute"]
computed = [t for t in reported if t[0] == "compute"]
if scene == "draw":
    assert drawn and all(t[2] is False and t[3] for t in drawn), "work that is not run is reported, with its reason"
    assert len(computed) == 2
else:
    assert not drawn, "nothing is drawn"
if scene == "endless":
    assert computed[0][1] != "0x1" and "did not end" in computed[0][3], "a hang is reported"
    computed = computed[1:]
assert computed and all(t[1:3] == ("0x1", True) for t in computed), "shaders ran"
EOF
}

for scene in $scenes; do
    for board in software:mali-g71 software:mali-g52; do
        file=$out/$scene-${board#software:}.kine
        step "$scene runs on $board, is recorded, and is not disturbed" \
            $bin/kinescope record --with panfrost --on "$board" -o "$file" -- $bin/gles-scenes "$scene" || continue
        step "$scene on $board: the recording names the jobs whose shaders ran" reported "$scene" "$file"
    done
done

# has_wgpu: installs PyPI's wgpu into an environment of its own, once.
has_wgpu() {
    webgpu=target/webgpu
    $webgpu/bin/python -c 'import numpy, wgpu' 2>/dev/null && return 0
    python3 -m venv $webgpu >"$out/wgpu" 2>&1 &&
        $webgpu/bin/pip install --quiet --disable-pip-version-check wgpu==0.32.0 numpy >>"$out/wgpu" 2>&1
}

if [ -z "$scenes" ]; then
    :
elif has_wgpu; then
    for board in software:mali-g71 software:mali-g52; do
        file=$out/webgpu-${board#software:}.kine
        step "a WebGPU program runs on $board, is recorded, and is right" \
            $bin/kinescope record --with panfrost --on "$board" -o "$file" -- \
            $webgpu/bin/python docs/tutorials/webgpu/saxpy.py || continue
        step "the WebGPU program on $board: the recording says that its shaders ran" reported webgpu "$file"
        step "the WebGPU program replays on $board from the file alone" $bin/kinescope replay "$file" --on "$board"
    done
else
    say "skipped the WebGPU program: wgpu cannot be installed from PyPI: $(tail -n 1 "$out/wgpu")"
fi
say "$passed passed, $failed failed"
[ $failed = 0 ]
