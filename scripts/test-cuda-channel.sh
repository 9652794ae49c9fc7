#!/bin/bash
# Programs recorded below CUDA and replayed on the channels of an NVIDIA GPU without NVIDIA's libraries: the part
# "channel" of make test-cuda. One line a check, "figure" lines for measurements; the last line is "N passed, N failed".
# BIN=FOLDER: where kinescope, the recorders, replay-channel and submission_latency are. WORK=FOLDER: where recordings go.
# PROGRAMS=FOLDER: the CUDA programs. NETS, WORKLOADS: which nets and which programs of tests/cuda/libraries/program.py.
set -u
cd "$(dirname "$0")/.." || exit 2
BIN=$(cd "${BIN:-target/release}" && pwd) || exit 2
WORK=${WORK:-target/cuda-channel}
mkdir -p "$WORK" && WORK=$(cd "$WORK" && pwd)
PROGRAMS=${PROGRAMS:?}
PATH=$BIN:$PATH
LIMIT=${LIMIT:-300}
passed=0
failed=0
ok() { passed=$((passed + 1)); printf 'ok      %s\n' "$*"; }
bad() { failed=$((failed + 1)); printf 'FAILED  %s\n' "$*"; }
json() { python3 -S -c 'import json,sys; d=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2" 2>/dev/null; }
now() { date +%s%N; }
seconds() { awk "BEGIN { printf \"%.3f\", ($2 - $1) / 1e9 }"; }
memory_used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -n 1; }

# replayed WHAT FILE [OPTION…]: replayed on the channel, all outputs are as recorded.
replayed() {
    local what=$1 file=$2; shift 2
    timeout "$LIMIT" kinescope replay "$file" --on nvidia:0 "$@" --json >"$WORK/replay.json" 2>"$WORK/log"
    if [ "$(json "$WORK/replay.json" "d['outcome'] == 'match' and len(d['calls']['outputs']) > 0 and all(o['differs_at'] is None and o['held'] for o in d['calls']['outputs'])")" = True ]; then
        ok "$what: $(json "$WORK/replay.json" "d['calls']['launches']") launches, $(json "$WORK/replay.json" "len(d['calls']['outputs'])") outputs bit-equal"
    else
        bad "$what: $(json "$WORK/replay.json" "d['failure'] or [o for o in d['calls']['outputs'] if o['differs_at'] is not None][:3]") $(tail -n 1 "$WORK/log" | cut -c1-300)"
    fi
}

# refused WHAT FILE WORDS [OPTION…]: not replayed, for this reason: a finding and not a wrong result.
refused() {
    local what=$1 file=$2 words=$3; shift 3
    timeout "$LIMIT" kinescope replay "$file" --on nvidia:0 "$@" >"$WORK/refused.txt" 2>"$WORK/log"
    local code=$?
    if [ $code != 0 ] && grep -q "$words" "$WORK/log" "$WORK/refused.txt"; then ok "$what is refused: $(grep -h "$words" "$WORK/log" "$WORK/refused.txt" | head -n 1 | cut -c1-160)"; else bad "$what: exit $code, $(tail -n 1 "$WORK/log")"; fi
}

# Programs: both levels recorded, the program's own result, both ways of a replay.
for p in vector_add reduction gemm stride globals linked streams thrust_sort graph; do
    file=$WORK/c-$p.kine
    rm -f "$file"
    "$PROGRAMS/$p" --out "$WORK/$p.out" >/dev/null 2>&1
    kinescope record --with cuda,nvidia -o "$file" -- "$PROGRAMS/$p" --out "$WORK/$p.recorded" >/dev/null 2>"$WORK/log" || { bad "$p recorded: $(tail -n 1 "$WORK/log")"; continue; }
    cmp -s "$WORK/$p.out" "$WORK/$p.recorded" && ok "$p gives the same bytes when recorded" || bad "$p gives other bytes when recorded"
    replayed "$p word for word" "$file"
    replayed "$p rebuilt" "$file" --rebuild
done
kinescope record --with nvidia -o "$WORK/c-alone.kine" -- "$PROGRAMS/vector_add" >/dev/null 2>"$WORK/log" || bad "vector_add below CUDA alone: $(tail -n 1 "$WORK/log")"
timeout "$LIMIT" kinescope replay "$WORK/c-alone.kine" --on nvidia:0 --output out0="$WORK/alone.bin" >"$WORK/log" 2>&1
cmp -s "$WORK/alone.bin" "$WORK/vector_add.out" && ok "vector_add recorded below CUDA alone: its output is the program's" || bad "vector_add below CUDA alone: $(tail -n 1 "$WORK/log")"

# What needs more of CUDA than a channel is refused or a finding.
kinescope record --with cuda,nvidia -o "$WORK/c-cooperative.kine" -- "$PROGRAMS/cooperative" >/dev/null 2>&1
refused "cooperative, rebuilt," "$WORK/c-cooperative.kine" "synchronization of the grid" --rebuild

# Faults: each ends within its limit and names its launch; the next replay works.
kinescope record --with cuda -o "$WORK/c-faulty.kine" -- "$PROGRAMS/faulty" >/dev/null 2>&1
for what in 1:address 3:misaligned 2:endless; do
    printf "\\$(printf '%03o' "${what%%:*}")\0\0\0" >"$WORK/order"
    head -c 12 /dev/zero >>"$WORK/order"
    begun=$(now)
    timeout "$LIMIT" kinescope replay "$WORK/c-faulty.kine" --on nvidia:0 --input in0="$WORK/order" --json >"$WORK/faulty.json" 2>"$WORK/log"
    why=$(json "$WORK/faulty.json" "d['failure']")
    case $why in *obey*) ok "${what#*:}: $why ($(seconds "$begun" "$(now)") s)" ;; *) bad "${what#*:}: $why $(tail -n 1 "$WORK/log")" ;; esac
    replayed "the replay after it" "$WORK/c-faulty.kine"
done

# What recording costs.
plain=$("$PROGRAMS/launch_cost" 2>&1 >/dev/null | tail -n 1)
below=$(kinescope record --with nvidia -o "$WORK/c-cost.kine" -- "$PROGRAMS/launch_cost" 2>&1 >/dev/null | grep launch_us)
echo "figure  a launch on the host: alone $plain; recorded with nvidia $below (aim: 10 us more)"

# Latencies, bring-up, and what clients leave behind.
if command -v submission_latency >/dev/null; then
    "${NVCC:-nvcc}" -arch=sm_90 -cubin -o "$WORK/vector_add.cubin" tests/cuda/programs/vector_add.cu 2>"$WORK/log"
    before=$(memory_used)
    submission_latency "$WORK/vector_add.cubin" _Z3addPfPKfS1_m 2>&1 | sed 's/^/figure  /'
    sleep 1
    after=$(memory_used)
    [ "$before" = "$after" ] && ok "200 clients leave no memory: $before MiB used before, $after after" || bad "200 clients: $before MiB used before, $after after"
fi
before=$(memory_used)
begun=$(now)
timeout "$LIMIT" kinescope replay "$WORK/c-vector_add.kine" --on nvidia:0 --rebuild --repeat 1000 --json >"$WORK/thousand.json" 2>"$WORK/log"
ended=$(now)
after=$(memory_used)
[ "$(json "$WORK/thousand.json" "d['outcome']")" = match ] && [ "$before" = "$after" ] && ok "1,000 replays in $(seconds "$begun" "$ended") s: $before MiB used before, $after after" || bad "1,000 replays: $(json "$WORK/thousand.json" "d['outcome']"), $before MiB used before, $after after $(tail -n 1 "$WORK/log")"

# Nets between their marks: bit-equal outputs, also for another input; time to the first output.
python3 -c 'import torch' 2>/dev/null || { echo "skipped: nets (no PyTorch here)"; echo "$passed passed, $failed failed"; [ $failed = 0 ]; exit; }
for name in ${NETS:-small_net resnet18}; do
    script=tests/cuda/torch/$name.py
    file=$WORK/c-$name.kine
    rm -f "$file" "$WORK/c-$name-cuda.kine"
    python3 "$script" --warmup 1 >/dev/null 2>"$WORK/log" || { bad "$name runs by itself"; continue; }
    KINESCOPE_MARKS=1 kinescope record --with cuda,nvidia --range marks -o "$file" -- python3 "$script" --warmup 1 --output "$WORK/$name.1.npy" >"$WORK/log" 2>&1 || { bad "$name recorded"; tail -n 2 "$WORK/log"; continue; }
    replayed "$name word for word" "$file"
    python3 - "$script" "$WORK/$name.in.npy" <<'PY'
import sys, pathlib
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
import inference, torch
shape = (1, 3, 224, 224) if "resnet18" in sys.argv[1] else (1, 3, 32, 32)
made = torch.rand(shape, generator=torch.Generator().manual_seed(2))
inference.write_npy(sys.argv[2], shape, inference.bytes_of(made.contiguous()))
PY
    python3 "$script" --warmup 1 --seed 2 --output "$WORK/$name.2.npy" >/dev/null 2>&1
    timeout "$LIMIT" kinescope replay "$file" --on nvidia:0 --input in0="$WORK/$name.in.npy" --output out0="$WORK/$name.2.bin" >"$WORK/log" 2>&1
    if python3 -c '
import sys, numpy as n
sys.exit(0 if n.load(sys.argv[1]).tobytes() == open(sys.argv[2], "rb").read() else 1)' "$WORK/$name.2.npy" "$WORK/$name.2.bin" 2>>"$WORK/log"; then
        ok "$name: with a new input bit-identical to PyTorch's output on it"
    else
        bad "$name: with a new input other than PyTorch's: $(tail -n 1 "$WORK/log")"
    fi
    kinescope record --with cuda -o "$WORK/c-$name-cuda.kine" -- python3 "$script" >/dev/null 2>&1
    kinescope record --with nvidia -o "$WORK/c-$name-below.kine" -- python3 "$script" >/dev/null 2>&1
    for _ in 1 2 3; do
        first=$(python3 "$script" --time --iterations 2 2>/dev/null | sed -n 's/.*first_output_s=\([0-9.]*\).*/\1/p')
        a=$(now); kinescope replay "$WORK/c-$name-cuda.kine" --on cuda:0 --output out0="$WORK/x.bin" >/dev/null 2>&1
        b=$(now); kinescope replay "$WORK/c-$name-below.kine" --on nvidia:0 --output out0="$WORK/x.bin" >"$WORK/first.txt" 2>&1; c=$(now)
        echo "figure  $name: seconds to the first output: python3 $first, cuda:0 $(seconds "$a" "$b"), nvidia:0 $(seconds "$b" "$c")"
    done
    grep -E '^(Ready|Time|Uploaded)' "$WORK/first.txt" | sed "s/^/figure  $name: /"
    if command -v replay-channel >/dev/null && kinescope export "$WORK/c-$name-below.kine" --to channel -o "$WORK/$name.chan" >"$WORK/log" 2>&1; then
        for _ in 1 2 3; do
            a=$(now); replay-channel "$WORK/$name.chan" >"$WORK/chan.bin" 2>"$WORK/chan.txt"; b=$(now)
            echo "figure  $name: the static executable ($(stat -c %s "$(command -v replay-channel)") bytes): $(seconds "$a" "$b") s; $(cat "$WORK/chan.txt")"
        done
        kinescope replay "$WORK/c-$name-below.kine" --on nvidia:0 --output out0="$WORK/x.bin" >/dev/null 2>&1
        cmp -s "$WORK/x.bin" "$WORK/chan.bin" && ok "$name: the static executable gives the same output" || bad "$name: the static executable gives another output"
    fi
    alone=$(python3 "$script" --time --iterations 200 2>/dev/null | grep -o 'inference_us.*')
    below=$(kinescope record --with nvidia -o "$WORK/c-cost.kine" -- python3 "$script" --time --iterations 200 2>/dev/null | grep -o 'inference_us.*')
    echo "figure  $name: an inference alone: $alone; recorded with nvidia: $below (aim: 1.4 times)"
    rm -f "$WORK/c-cost.kine"
done
for name in ${WORKLOADS:-gpt2 training1000}; do
    file=$WORK/c-$name.kine
    rm -f "$file"
    kinescope record --with cuda,nvidia --limit 8G -o "$file" -- python3 tests/cuda/libraries/program.py "$name" >"$WORK/log" 2>&1 || { bad "$name recorded: $(tail -n 2 "$WORK/log")"; continue; }
    replayed "$name word for word" "$file"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
