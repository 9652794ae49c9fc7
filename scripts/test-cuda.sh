#!/bin/bash
# make test-cuda: on a machine with an NVIDIA GPU, the toolkit's nvcc and, for the nets, PyTorch: records CUDA programs,
# plays them again in new processes, tunes launches, and tells figures. The last line is "N passed, N failed".
# Use: scripts/test-cuda.sh [PART…]   PARTs: programs failures kernels watch remote nets libraries channel wasm wasm-suite tune neighbours; none: all of them
# NETS="NAME[:PRECISION] …": which nets, of small_net and resnet18. LIBRARY_PROGRAMS="NAME …": which programs of the
# part libraries (LIBRARIES itself is a variable of nvcc). BIN=FOLDER: where kinescope, kinescope-agent and
# libkinescope_cuda.so are, built elsewhere (default target/release, made here where there is cargo). WORK=FOLDER: where
# recordings go (default target/cuda-test).
set -u
cd "$(dirname "$0")/.." || exit 2
BIN=${BIN:-target/release}
WORK=${WORK:-target/cuda-test}
parts=${*:-programs failures kernels watch remote nets libraries channel wasm wasm-suite tune neighbours}
passed=0
failed=0
ok() { passed=$((passed + 1)); printf 'ok      %s\n' "$*"; }
bad() { failed=$((failed + 1)); printf 'FAILED  %s\n' "$*"; }
# check NAME COMMAND…: passes when the command does; its last lines are shown when it does not.
check() {
    local what=$1; shift
    if "$@" >"$WORK/log" 2>&1; then ok "$what"; else bad "$what (exit $?)"; tail -n 12 "$WORK/log" | sed 's/^/        /'; fi
}
wants() { case " $parts " in *" $1 "*) return 0 ;; esac; return 1; }
now() { date +%s%N; }
# seconds FROM TO
seconds() { awk "BEGIN { printf \"%.3f\", ($2 - $1) / 1e9 }"; }
# json FILE EXPRESSION: a value out of a JSON file, by Python.
json() { python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }

command -v nvidia-smi >/dev/null || { echo "there is no NVIDIA driver here (nvidia-smi is missing)"; exit 2; }
mkdir -p "$WORK"
WORK=$(cd "$WORK" && pwd)
PROGRAMS=${PROGRAMS:-$WORK/programs}
if [ ! -x "$BIN/kinescope" ] || [ ! -e "$BIN/libkinescope_cuda.so" ]; then
    command -v cargo >/dev/null || { echo "$BIN has no kinescope and there is no cargo to build it"; exit 2; }
    cargo build --locked --release -p kinescope -p kinescope-agent -p kinescope-cuda -p kinescope-nvidia || exit 2
    cargo build --locked --release -p replay-nvidia --example submission_latency && cp target/release/examples/submission_latency "$BIN" || exit 2
    cargo build --locked --release -p cuda-clients -p kinescope-remote-cuda -p kinescope-remote-cudart-12 -p kinescope-remote-cudart-13 -p kinescope-remote-cublas-12 -p kinescope-remote-cublas-13 -p kinescope-remote-curand || exit 2
    cargo build --locked --profile bare -p replay-bare && cp target/bare/replay-channel "$BIN" || exit 2
    cargo build --locked --release -p whole-program-tests --example wasm_inputs && cp target/release/examples/wasm_inputs "$BIN" || exit 2
    cargo build --locked --release -p wasm-tests --bin wasm_suite || exit 2
fi
BIN=$(cd "$BIN" && pwd)
PATH=$BIN:$PATH
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
NVCC=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
make -s -j8 -C tests/cuda/programs OUT="$PROGRAMS" NVCC="$NVCC" FLAGS="${FLAGS:-}" >"$WORK/make.log" 2>&1 || { tail -n 20 "$WORK/make.log"; echo "the programs do not build"; exit 2; }

# program NAME [ARGUMENT…]: runs it, records it, replays it in new processes, call by call and as one graph.
program() {
    local name=$1; shift
    file=$WORK/$name.kine
    plain=$("$PROGRAMS/$name" "$@" --out "$WORK/$name.out" 2>&1) || { bad "$name runs by itself: $plain"; return; }
    rm -f "$file" "$WORK/$name"-*.kine
    printed=$(kinescope record --with cuda -o "$file" -- "$PROGRAMS/$name" "$@" --out "$WORK/$name.recorded" 2>"$WORK/log")
    case $printed in *"$plain"*) ;; *) bad "$name gives the same when recorded: '$plain', '$printed'"; tail -n 3 "$WORK/log"; return ;; esac
    cmp -s "$WORK/$name.out" "$WORK/$name.recorded" && ok "$name gives the same bytes when recorded" || bad "$name gives other bytes when recorded"
    check "$name: the recording is sound" kinescope verify "$file"
    check "$name: replayed in a new process, outputs bit-equal" kinescope replay "$file" --on cuda:0 -o "$WORK/$name.outcome.kine"
    check "$name: replayed as one graph, three times" kinescope replay "$file" --on cuda:0 --graph --repeat 3
}

if wants programs; then
    for p in vector_add reduction linked globals streams graph cooperative gemm thrust_sort stride wrong_for_some fork_and_threads hotspot pathfinder lud nw srad backprop; do program $p; done
    # Textures are a finding, not a replay.
    kinescope record --with cuda -o "$WORK/texture.kine" -- "$PROGRAMS/texture" >/dev/null 2>&1
    kinescope check "$WORK/texture.kine" 2>/dev/null | grep -qi texture && ok "texture: what is not recorded is a finding" || bad "texture: no finding"
    kinescope record --with cuda -o "$WORK/driver_api.kine" -- "$PROGRAMS/driver_api" >"$WORK/log" 2>&1 && ok "driver_api runs when recorded" || bad "driver_api when recorded: $(tail -n 2 "$WORK/log")"
fi

if wants failures; then
    kinescope record --with cuda -o "$WORK/faulty.kine" -- "$PROGRAMS/faulty" >/dev/null 2>&1
    # The first word of its first copy says what to do: 1 writes to an illegal address, 2 never ends.
    kinescope plan "$WORK/faulty.kine" --on cuda:0 >"$WORK/faulty.plan.txt" 2>&1
    for what in 1 2; do
        printf "\\$(printf '%03o' $what)\0\0\0" >"$WORK/order"
        head -c 12 /dev/zero >>"$WORK/order"
        begun=$(now)
        kinescope replay "$WORK/faulty.kine" --on cuda:0 --input in0="$WORK/order" --time-limit 5 --json >"$WORK/faulty.json" 2>"$WORK/log"
        code=$?
        why=$(json "$WORK/faulty.json" "d['failure']" 2>/dev/null)
        if [ $code = 1 ] && [ "$(json "$WORK/faulty.json" "d['calls']['stopped']['function'] is not None")" = True ]; then
            ok "faulty $what: $why ($(seconds "$begun" "$(now)") s)"
        else
            bad "faulty $what: exit $code, $why $(tail -n 1 "$WORK/log")"
        fi
    done
    check "the device plays on after that" kinescope replay "$WORK/faulty.kine" --on cuda:0
fi

if wants kernels; then
    rm -f "$WORK"/k-*.kine
    check "stride: its kernel recorded by itself" kinescope record --with cuda --kernels scale_add -o "$WORK/k-stride.kine" -- "$PROGRAMS/stride"
    check "stride: that launch replayed, memory after it bit-equal" kinescope replay "$WORK/k-stride.kine" --on cuda:0
    check "streams: all launches recorded one by one" kinescope record --with cuda --kernels '*' --pick all -o "$WORK/k-streams.kine" -- "$PROGRAMS/streams"
    check "streams: each replayed" kinescope replay "$WORK/k-streams.kine" --on cuda:0
    ls -l "$WORK"/k-*.kine | awk '{print "figure  bytes of " $9 ": " $5}'
fi

if wants watch; then
    # Changes that a target traces for each launch are those that the recorder stores around it.
    # Not of programs that take memory again and again: what lies in it before it is first written is anybody's.
    for p in vector_add reduction linked globals streams stride; do
        rm -f "$WORK/w-$p.kine" "$WORK/e-$p.kine"
        kinescope record --with cuda -o "$WORK/w-$p.kine" -- "$PROGRAMS/$p" >"$WORK/log" 2>&1 || { bad "$p recorded: $(tail -n 1 "$WORK/log")"; continue; }
        kinescope record --with cuda --kernels '*' --pick all -o "$WORK/e-$p.kine" -- "$PROGRAMS/$p" >"$WORK/log" 2>&1 || { bad "$p recorded launch by launch: $(tail -n 1 "$WORK/log")"; continue; }
        if printed=$(python3 tests/cuda/watched.py cuda:0 "$WORK/w-$p.kine" "$WORK/e-$p.kine" 2>"$WORK/log"); then
            ok "$p: changes traced on the target are those that the recorder stored: $printed"
        else
            bad "$p: $(cat "$WORK/log")"
        fi
    done
    for p in graph cooperative gemm thrust_sort; do
        kinescope record --with cuda -o "$WORK/w-$p.kine" -- "$PROGRAMS/$p" >/dev/null 2>&1
        kinescope launches "$WORK/w-$p.kine" --on cuda:0 --json >"$WORK/watched.json" 2>"$WORK/log"
        [ "$(json "$WORK/watched.json" "all(l['changed'] for l in d) and len(d) > 0")" = True ] && ok "$p: what each launch changed" || bad "$p: $(tail -n 2 "$WORK/log")"
        # The first byte that the host reads back: who left it there.
        kinescope last-writer "$WORK/w-$p.kine" out0 --on cuda:0 --json >"$WORK/who.json" 2>"$WORK/log"
        [ "$(json "$WORK/who.json" "d['known'] and not d['launches'] and (d['changed'] is not None or d['writer'] is not None or d['left_as_it_was'] + d['readers'] > 0)")" = True ] && ok "$p: the last writer of out0, to the launch" || bad "$p: who: $(cat "$WORK/log" "$WORK/who.json" | head -c 300)"
    done
fi

if wants remote; then
    BIN=$BIN WORK=$WORK/remote PROGRAMS=$PROGRAMS NVCC=$NVCC FLAGS=${FLAGS:-} scripts/test-cuda-remote.sh | tee "$WORK/remote.log"
    # The last line counts: "N passed, N failed".
    read -r own_passed _ own_failed _ < <(tail -n 1 "$WORK/remote.log")
    passed=$((passed + own_passed)); failed=$((failed + own_failed))
fi

# watch_net NAME: all launches of an inference watched.
watch_net() {
    a=$(now)
    kinescope launches "$WORK/$1.kine" --on cuda:0 --json >"$WORK/$1.watched.json" 2>"$WORK/log"
    b=$(now)
    if [ "$(json "$WORK/$1.watched.json" "all(l['changed'] is not None for l in d) and any(l['changed'] for l in d)")" = True ]; then
        ok "$1: every launch watched: $(json "$WORK/$1.watched.json" "(len(d), 'launches changed', sum(c['bytes'] for l in d for c in l['changed']), 'bytes')") in $(seconds "$a" "$b") s"
    else
        bad "$1: watched: $(json "$WORK/$1.watched.json" "sum(l['changed'] is None for l in d)") launches not, $(tail -n 2 "$WORK/log")"
    fi
}

# net NAME [PRECISION]: recorded between its marks behind one warm-up, replayed with the recorded and with another input.
# The precision is that of convolutions: PyTorch's own choice (tf32), or ieee.
net() {
    local name=$1${2:+-$2} how="--precision ${2:-tf32}"
    script=tests/cuda/torch/$1.py
    rm -f "$WORK/$name"*.kine
    # Warm file caches: once without looking.
    python3 "$script" $how --warmup 1 >/dev/null 2>"$WORK/log" || { bad "$name runs by itself"; tail -n 3 "$WORK/log"; return; }
    KINESCOPE_MARKS=1 kinescope record --with cuda --range marks -o "$WORK/$name.kine" -- python3 "$script" $how --warmup 1 --output "$WORK/$name.1.npy" >"$WORK/log" 2>&1 || { bad "$name recorded"; tail -n 3 "$WORK/log"; return; }
    python3 "$script" $how --warmup 1 --seed 2 --output "$WORK/$name.2.npy" --iterations 200 --time >"$WORK/$name.torch" 2>&1
    python3 - "$script" "$WORK/$name.in.npy" <<'PY'
import sys, runpy, pathlib
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
import inference, torch
shape = (1, 3, 224, 224) if "resnet18" in sys.argv[1] else (1, 3, 32, 32)
made = torch.rand(shape, generator=torch.Generator().manual_seed(2))
inference.write_npy(sys.argv[2], shape, inference.bytes_of(made.contiguous()))
PY
    check "$name: replayed, output and memory behind it bit-equal" kinescope replay "$WORK/$name.kine" --on cuda:0 --memory
    out=out0
    shape=$([ "$1" = resnet18 ] && echo 1x1000 || echo 1x10)
    # Other inputs: the recorded one is printed as different, which is what is wanted.
    kinescope replay "$WORK/$name.kine" --on cuda:0 --input in0="$WORK/$name.in.npy" --as "$out=f32:$shape" --output "$out=$WORK/$name.replayed.npy" >"$WORK/log" 2>&1
    # Shapes and headers may be written differently: the numbers count.
    if python3 -c '
import sys, numpy as n
a, b = n.load(sys.argv[1]), n.load(sys.argv[2])
sys.exit(0 if a.tobytes() == b.tobytes() else 1)' "$WORK/$name.2.npy" "$WORK/$name.replayed.npy" 2>>"$WORK/log"; then
        ok "$name: with a new input bit-identical to PyTorch's output on it"
    else
        bad "$name: with a new input other than PyTorch's"; tail -n 4 "$WORK/log"
    fi
    # Time from the start of the process to the first output, one after the other, three times each.
    best_torch=; best_replay=; best_bare=
    for _ in 1 2 3; do
        # Python tells by itself when its first output is there; of ours the whole process counts, to its end.
        first=$(python3 "$script" $how --time 2>/dev/null | sed -n 's/.*first_output_s=\([0-9.]*\).*/\1/p'); b=$(now)
        rm -f "$WORK/x.bin"
        kinescope replay "$WORK/$name.kine" --on cuda:0 --output "$out=$WORK/x.bin" >"$WORK/$name.first" 2>&1; c=$(now)
        printf '{"file":"%s","outputs":"%s","own":true}' "$WORK/$name.kine" "$WORK" | kinescope-agent play-calls >/dev/null 2>&1; d=$(now)
        best_torch="$best_torch $first"; best_replay="$best_replay $(seconds "$b" "$c")"; best_bare="$best_bare $(seconds "$c" "$d")"
    done
    echo "figure  $name: seconds to the first output: python3$best_torch, kinescope replay$best_replay, the player alone$best_bare"
    echo "figure  $name: first output, python3 to replay, shortest of each: $(awk -v t="$best_torch" -v r="$best_replay" 'function least(s, a, n, i, m) { n = split(s, a, " "); m = a[1]; for (i = 2; i <= n; i++) if (a[i] < m) m = a[i]; return m + 0 } BEGIN { printf "%.1f", least(t) / least(r) }') times (aim 10)"
    # What the time went to, of the last of these.
    grep -E '^(Ready|Time|Uploaded)' "$WORK/$name.first" | sed "s/^/figure  $name: /"
    kinescope replay "$WORK/$name.kine" --on cuda:0 --graph --no-restore --repeat 300 --json >"$WORK/$name.steady.json" 2>"$WORK/log"
    [ "$(json "$WORK/$name.steady.json" "d['outcome']")" = match ] && ok "$name: as one graph, 300 times, nothing put back, the last one bit-equal" || bad "$name: as one graph without putting back: $(tail -n 2 "$WORK/log")"
    kinescope replay "$WORK/$name.kine" --on cuda:0 --no-restore --repeat 300 --json >"$WORK/$name.own.json" 2>>"$WORK/log"
    kinescope replay "$WORK/$name.kine" --on cuda:0 --graph --repeat 300 --json >"$WORK/$name.graph.json" 2>>"$WORK/log"
    kinescope replay "$WORK/$name.kine" --on cuda:0 --repeat 100 --json >"$WORK/$name.calls.json" 2>>"$WORK/log"
    echo "figure  $name: microseconds an inference, nothing put back: as one graph $(json "$WORK/$name.steady.json" "d['timing']['runs']['p50_ns']/1000"), call by call $(json "$WORK/$name.own.json" "d['timing']['runs']['p50_ns']/1000")"
    watch_net "$name"
    eager=$(sed -n 's/.*inference_us mean=[0-9.]* median=\([0-9.]*\).*/\1/p' "$WORK/$name.torch")
    echo "figure  $name: one graph to PyTorch's eager mode, medians: $(json "$WORK/$name.steady.json" "round(d['timing']['runs']['p50_ns'] / 1000 / ${eager:-0}, 3)") (aim 0.5)"
    echo "figure  $name: microseconds an inference behind putting back: as one graph $(json "$WORK/$name.graph.json" "d['timing']['runs']['p50_ns']/1000"), call by call $(json "$WORK/$name.calls.json" "d['timing']['runs']['p50_ns']/1000"); PyTorch: $(grep -o 'inference_us [^,]*\|forward_us.*' "$WORK/$name.torch" | tr '\n' ' ')"
    [ "$(json "$WORK/$name.graph.json" "d['outcome']")" = match ] && ok "$name: as one graph, 300 times, bit-equal" || bad "$name: as one graph: $(tail -n 2 "$WORK/log")"
    echo "figure  $name: pages put back before a run: $(json "$WORK/$name.calls.json" "d['calls']['restored'][:3]") of $(json "$WORK/$name.calls.json" "d['calls']['mapped']//4096")"
    weights=$(python3 -c "
import sys; sys.path.insert(0, 'tests/cuda/torch')
import torch, runpy
m = runpy.run_path('$script', run_name='x')['make_net'](torch)
print(sum(t.numel() * t.element_size() for t in list(m.parameters()) + list(m.buffers())))" 2>/dev/null)
    kinescope info "$WORK/$name.kine" --json >"$WORK/info.json" 2>/dev/null
    code=$(kinescope kernels "$WORK/$name.kine" --json 2>/dev/null | python3 -c '
import json, sys
print(sum({k["module"]: k["module_bytes"] for k in json.load(sys.stdin)}.values()))' 2>/dev/null)
    echo "figure  $name: recording $(stat -c %s "$WORK/$name.kine") bytes; weights $weights, modules of launched kernels $code"
}
if wants nets; then
    if python3 -c 'import torch' 2>/dev/null; then
        for one in ${NETS:-small_net resnet18 resnet18:ieee}; do
            case $one in *:*) net "${one%%:*}" "${one#*:}" ;; *) net "$one" ;; esac
        done
    else
        echo "skipped: nets (no PyTorch here)"
    fi
fi

if wants libraries; then
    if python3 -c 'import torch' 2>/dev/null; then
        BIN=$BIN WORK=$WORK/libraries scripts/test-cuda-libraries.sh ${LIBRARY_PROGRAMS:-} | tee "$WORK/libraries.log"
        # The last line counts: "N passed, N failed".
        read -r own_passed _ own_failed _ < <(tail -n 1 "$WORK/libraries.log")
        passed=$((passed + own_passed)); failed=$((failed + own_failed))
    else
        echo "skipped: libraries (no PyTorch here)"
    fi
fi

if wants channel; then
    BIN=$BIN WORK=$WORK/channel PROGRAMS=$PROGRAMS NVCC=$NVCC scripts/test-cuda-channel.sh | tee "$WORK/channel.log"
    # The last line counts: "N passed, N failed".
    read -r own_passed _ own_failed _ < <(tail -n 1 "$WORK/channel.log")
    passed=$((passed + own_passed)); failed=$((failed + own_failed))
fi

if wants wasm; then
    BIN=$BIN WORK=$WORK/wasm PROGRAMS=$PROGRAMS NVCC=$NVCC scripts/test-cuda-wasm.sh | tee "$WORK/wasm.log"
    # The last line counts: "N passed, N failed".
    read -r own_passed _ own_failed _ < <(tail -n 1 "$WORK/wasm.log")
    passed=$((passed + own_passed)); failed=$((failed + own_failed))
fi

# The official test-suite of WebAssembly through the driver's compiler, and operations on floats bit for bit.
if wants wasm-suite; then
    if [ -x "$BIN/wasm_suite" ]; then
        check "WebAssembly: operations on floats are those of the interpreter" "$BIN/wasm_suite" --on cuda:0 --table
        for cell in 4 8 16; do
            check "WebAssembly: the official test-suite, cells of $cell bytes" "$BIN/wasm_suite" --on cuda:0 --cell $cell
            echo "figure  $(grep 'driver compilations' "$WORK/log"); $(tail -n 1 "$WORK/log")"
        done
    else
        echo "skipped: the WebAssembly test-suite ($BIN has no wasm_suite)"
    fi
fi

if wants tune; then
    kinescope record --with cuda -o "$WORK/t-stride.kine" -- "$PROGRAMS/stride" >/dev/null 2>&1
    kinescope record --with cuda -o "$WORK/t-wrong.kine" -- "$PROGRAMS/wrong_for_some" >/dev/null 2>&1
    a=$(now)
    kinescope tune "$WORK/t-stride.kine" --on cuda:0 --launch scale_add --block 32,64,128,256,512,1024 --grid 80,160,320,640,1280 --repeat 5 --csv "$WORK/stride.csv" --csv-recordreplay "$WORK/stride.rr.csv" --parquet "$WORK/stride.parquet" --json >"$WORK/tune.json" 2>"$WORK/log"
    code=$?
    b=$(now)
    [ $code = 0 ] && ok "stride: 30 points of 5 repeats tuned" || { bad "stride: tune"; tail -n 5 "$WORK/log"; }
    # The same points by the program, once each.
    c=$(now)
    for block in 32 64 128 256 512 1024; do for grid in 80 160 320 640 1280; do "$PROGRAMS/stride" --block $block --grid $grid >/dev/null; done; done
    d=$(now)
    echo "figure  stride: tune $(seconds "$a" "$b") s, the program once a point $(seconds "$c" "$d") s: $(awk "BEGIN { printf \"%.1f\", ($d - $c) / ($b - $a) }") times"
    head -n 4 "$WORK/stride.csv"
    head -n 2 "$WORK/stride.rr.csv"
    # Code in the place of what was recorded, in each form that it can have: CUDA C++ is compiled on this machine.
    for form in cu ptx cubin; do
        for which in right wrong; do
            code=tests/cuda/replaced/$which.cu
            if [ $form != cu ]; then
                code=$WORK/$which.$form
                "$NVCC" -arch=native -$form -o "$code" tests/cuda/replaced/$which.cu 2>"$WORK/log" || { bad "replaced by $form: $(tail -n 1 "$WORK/log")"; continue; }
            fi
            kinescope tune "$WORK/t-stride.kine" --on cuda:0 --launch scale_add --module "$code" --block 128,256 --grid 640 --repeat 3 --csv "$WORK/replaced.csv" >"$WORK/replaced.txt" 2>"$WORK/log"
            printed=$(python3 -c '
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
print(sorted({r["verdict"] for r in rows if r["code"]}), len(rows))' "$WORK/replaced.csv" 2>>"$WORK/log")
            case $printed in "['$which'] "*) ok "scale_add replaced by $which code as $form: $printed" ;; *) bad "scale_add replaced by $which code as $form: $printed $(tail -n 3 "$WORK/log" "$WORK/replaced.txt")" ;; esac
        done
    done
    kinescope tune "$WORK/t-wrong.kine" --on cuda:0 --launch tile_sums --block 32,48,64,96,128,160,192,256,320,512,1024 --grid 64 --repeat 3 --csv "$WORK/wrong.csv" >"$WORK/wrong.txt" 2>"$WORK/log"
    rejected=$(python3 - "$WORK/wrong.csv" <<'PY'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
print(sorted({int(r["block_x"]) for r in rows if r["verdict"] == "wrong"}), sorted({int(r["block_x"]) for r in rows if r["verdict"] == "right"}))
PY
)
    [ "$rejected" = "[48, 96, 160, 192, 320, 512, 1024] [32, 64, 128, 256]" ] && ok "wrong_for_some: exactly the wrong ones are rejected" || { bad "wrong_for_some: $rejected"; tail -n 5 "$WORK/log"; }
fi

if wants neighbours; then
    # As RecordReplay and Mneme do it, on the same kernel: all live memory twice, in steps of 2 MiB; a process a point.
    bytes=$((4194304 * 4))
    round=$(((bytes + 2097151) / 2097152 * 2097152))
    echo "figure  neighbours: stride has 3 allocations of $bytes bytes: twice all of it in steps of 2 MiB is $((round * 3 * 2)) bytes; ours (k-stride.kine) $(stat -c %s "$WORK/k-stride.kine" 2>/dev/null)"
    a=$(now); "$PROGRAMS/stride" >/dev/null; b=$(now)
    kinescope record --with cuda --kernels scale_add -o "$WORK/n.kine" -- "$PROGRAMS/stride" >/dev/null 2>&1; c=$(now)
    rm -rf "$WORK/n.kine" "$WORK/dumped"
    mkdir "$WORK/dumped"
    # The same program as it writes down what they do: that costs them this at least, without what else they do.
    d=$(now); "$PROGRAMS/stride" --dump "$WORK/dumped" >/dev/null; e=$(now)
    echo "figure  neighbours: the program $(seconds "$a" "$b") s, recorded $(seconds "$b" "$c") s; with all memory written twice instead, $(cat "$WORK/dumped"/* | wc -c) bytes, $(seconds "$d" "$e") s"
    rm -rf "$WORK/dumped"
    # Each of their points is compiled again, down to machine code; of that the last step alone, and the whole with its front.
    "$NVCC" -arch=native -ptx -o "$WORK/stride.ptx" tests/cuda/programs/stride.cu 2>/dev/null
    ptxas=$(dirname "$(readlink -f "$NVCC")")/ptxas
    a=$(now)
    "$ptxas" -arch="$(sed -n 's/^\.target *\([a-z0-9_]*\).*/\1/p' "$WORK/stride.ptx")" -o "$WORK/stride.cubin" "$WORK/stride.ptx" 2>"$WORK/log" || bad "neighbours: ptxas: $(tail -n 1 "$WORK/log")"
    b=$(now)
    "$NVCC" -arch=native -cubin -o "$WORK/stride.cubin" tests/cuda/programs/stride.cu 2>"$WORK/log" || bad "neighbours: nvcc: $(tail -n 1 "$WORK/log")"
    c=$(now)
    echo "figure  neighbours: the kernel compiled once more: ptxas alone $(seconds "$a" "$b") s, nvcc to machine code $(seconds "$b" "$c") s"
    a=$(now)
    for _ in 1 2 3; do kinescope replay "$WORK/k-stride.kine" --on cuda:0 --repeat 5 >/dev/null 2>&1; done
    b=$(now)
    echo "figure  neighbours: a process a point (replay --repeat 5): $(awk "BEGIN { printf \"%.3f\", ($b - $a) / 3e9 }") s a point; ours: see tune above, divided by 30"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
