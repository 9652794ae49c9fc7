#!/bin/bash
# WebAssembly programs on an NVIDIA GPU: the part "wasm" of make test-cuda. Outputs equal those of the CPU, of wasmtime
# (where Python has it) and of native code; figures are compile times and inputs in a second.
# One line a check, "figure" lines for measurements; the last line is "N passed, N failed".
# BIN=FOLDER: where kinescope and wasm_inputs are. WORK=FOLDER: where logs and compiled programs go. COUNTS, WASM_PROGRAMS: which
# numbers of copies, which programs. BENCH_COUNT: copies of the measurements, with repeated inputs. CPU_COUNT: the CPU runs at most so many inputs if wasmtime runs all. LIMIT: seconds
# of one command.
set -u
cd "$(dirname "$0")/.." || exit 2
BIN=$(cd "${BIN:-target/release}" && pwd) || exit 2
WORK=${WORK:-target/cuda-wasm}
mkdir -p "$WORK" && WORK=$(cd "$WORK" && pwd)
# Inputs and outputs are in memory, where there is such a file system: a disk would slow wasmtime and native code down.
FILES=$WORK
if [ -d /dev/shm ] && [ -w /dev/shm ]; then
    FILES=$(mktemp -d /dev/shm/cuda-wasm.XXXXXX) || exit 2
    trap 'rm -rf "$FILES"' EXIT
fi
PATH=$BIN:$PATH
LIMIT=${LIMIT:-500}
COUNTS=${COUNTS:-1 33 4096 16384}
CPU_COUNT=${CPU_COUNT:-4096}
BENCH_COUNT=${BENCH_COUNT:-65536}
PROGRAMS=${WASM_PROGRAMS:-scrypt pbkdf2 blur blockhash lz4 histogram wordcount filter groups}
SOURCES=tests/wasm/programs
# Few cubins of earlier runs.
export XDG_CACHE_HOME=$WORK/cache
passed=0
failed=0
ok() { passed=$((passed + 1)); printf 'ok      %s\n' "$*"; }
bad() { failed=$((failed + 1)); printf 'FAILED  %s\n' "$*"; }
json() { python3 -S -c 'import json,sys; d=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2" 2>/dev/null; }
command -v kinescope >/dev/null || { echo "$BIN has no kinescope"; exit 2; }
command -v wasm_inputs >/dev/null || { echo "$BIN has no wasm_inputs: cargo build --release -p whole-program-tests --example wasm_inputs"; exit 2; }
has_wasmtime=no
python3 -c 'import wasmtime' 2>/dev/null && has_wasmtime=yes
has_gcc=no
command -v gcc >/dev/null && has_gcc=yes
table=$WORK/table
printf 'program\tinputs\tcold_s\twarm_s\tregisters\tgpu_cell\tgpu/s\tsorted/s\tkernels/s\twall/s\tcpu/s\twasmtime/s\tnative/s\tgpu:wasmtime\n' >"$table"

# arguments_of PROGRAM: arguments of the program.
arguments_of() { case $1 in pbkdf2) echo 1000 ;; esac; }
# inputs_of PROGRAM COUNT: makes the inputs, and prints their folder. The first inputs are the same for all counts.
inputs_of() {
    local folder=$FILES/inputs/$1-$2
    [ -d "$folder" ] || wasm_inputs "$1" "$2" 7 "$folder" || return 1
    echo "$folder"
}
# same REFERENCE FOUND: each output in the second folder that the first one has too is equal, and there is one.
same() {
    diff -rq -x report.json -x '*.exit' -x '*.calls' "$1" "$2" 2>&1 | grep -v '^Only in' >"$WORK/log"
    [ ! -s "$WORK/log" ] && [ -e "$1/000001.stdout" ] && [ -e "$2/000001.stdout" ]
}
# rate COUNT SECONDS
rate() { awk "BEGIN { if ($2 > 0) printf \"%.0f\", $1 / $2; else printf \"-\" }"; }

# on TARGET PROGRAM INPUTS OUT [OPTION...]: runs a program; the report is OUT/report.json.
on() {
    local target=$1 name=$2 inputs=$3 out=$4; shift 4
    local extra=()
    for argument in $(arguments_of "$name"); do extra+=(--arg "$argument"); done
    rm -rf "$out"
    timeout "$LIMIT" kinescope wasm run "$SOURCES/$name.wasm" --inputs "$inputs" -o "$out" --on "$target" "${extra[@]}" "$@" >"$WORK/log" 2>&1
}

for name in $PROGRAMS; do
    [ -e "$SOURCES/$name.wasm" ] || { bad "$name: no such program"; continue; }
    largest=0
    most=$(printf '%s\n' $COUNTS | sort -n | tail -n 1)
    cpu_count=$most
    [ $has_wasmtime = yes ] && [ "$cpu_count" -gt "$CPU_COUNT" ] && cpu_count=$CPU_COUNT
    inputs=$(inputs_of "$name" "$cpu_count") || { bad "$name: inputs of $cpu_count copies"; continue; }
    if ! on cpu "$name" "$inputs" "$FILES/out/cpu"; then bad "$name on the CPU: $(tail -n 1 "$WORK/log")"; continue; fi
    for count in $COUNTS; do
        inputs=$(inputs_of "$name" "$count") || { bad "$name: inputs of $count copies"; continue; }
        if ! on cuda:0 "$name" "$inputs" "$FILES/out/gpu"; then bad "$name, $count inputs on the GPU: $(tail -n 2 "$WORK/log")"; continue; fi
        if same "$FILES/out/cpu" "$FILES/out/gpu" && [ "$(json "$FILES/out/gpu/report.json" "len(d['runs']) == $count and all(r['exit'] == 0 for r in d['runs'])")" = True ]; then
            ok "$name: $count inputs, $(json "$FILES/out/gpu/report.json" "d['copies']") copies: outputs of GPU and CPU are equal"
        else
            bad "$name: $count inputs: $(head -n 3 "$WORK/log")"
        fi
        [ "$count" -gt "$largest" ] && largest=$count
    done
    [ "$largest" != 0 ] || continue
    inputs=$FILES/inputs/$name-$largest
    cpu_rate=$(rate "$cpu_count" "$(json "$FILES/out/cpu/report.json" "d['seconds']")")
    wasmtime_rate=-
    if [ $has_wasmtime = yes ]; then
        rm -rf "$FILES/out/wasmtime"
        seconds=$(timeout "$LIMIT" python3 tests/wasm/run_wasmtime.py "$SOURCES/$name.wasm" "$inputs" "$FILES/out/wasmtime" $(arguments_of "$name") 2>"$WORK/log" | tail -n 1)
        if [ -n "$seconds" ]; then
            wasmtime_rate=$(rate "$largest" "$seconds")
            if same "$FILES/out/wasmtime" "$FILES/out/gpu"; then ok "$name: outputs of GPU and wasmtime are equal"; else bad "$name: wasmtime: $(head -n 3 "$WORK/log")"; fi
        else
            bad "$name under wasmtime: $(tail -n 1 "$WORK/log")"
        fi
    fi
    native_rate=-
    if [ $has_gcc = yes ] && [ -e "$SOURCES/$name.c" ]; then
        more=
        case $name in scrypt | pbkdf2) more=$SOURCES/sha256.c ;; esac
        if gcc -O2 -std=gnu17 -o "$FILES/native" "$SOURCES/$name.c" $more -lm >"$WORK/log" 2>&1; then
            rm -rf "$FILES/out/native" && mkdir -p "$FILES/out/native"
            begun=$(date +%s%N)
            (cd "$inputs" && printf '%s\0' * | xargs -0 -P "$(nproc)" -n 64 sh -c 'to=$1; more=$2; program=$3; shift 3; for n; do "$program" $more <"$n" >"$to/$n.stdout" 2>"$to/$n.stderr"; done' sh "$FILES/out/native" "$(arguments_of "$name")" "$FILES/native")
            seconds=$(awk "BEGIN { print ($(date +%s%N) - $begun) / 1e9 }")
            native_rate=$(rate "$largest" "$seconds")
            if same "$FILES/out/native" "$FILES/out/gpu"; then ok "$name: outputs of GPU and native code are equal"; else bad "$name: native code: $(head -n 3 "$WORK/log")"; fi
        else
            bad "$name does not compile natively: $(tail -n 1 "$WORK/log")"
        fi
    fi
    extra=()
    for argument in $(arguments_of "$name"); do extra+=(--arg "$argument"); done
    repeat=$((BENCH_COUNT / largest))
    [ "$repeat" -gt 0 ] || repeat=1
    if timeout "$LIMIT" kinescope wasm bench "$SOURCES/$name.wasm" --inputs "$inputs" --repeat "$repeat" --on cuda:0 --no-cpu "${extra[@]}" --json >"$WORK/bench.json" 2>"$WORK/log"; then
        for cell in 4 8 16; do
            echo "figure  $name: cell $cell: $(json "$WORK/bench.json" "next('%.0f inputs/s, %d registers, compiled in %.2f s cold and %.2f s warm, %d launches; %.3f s, wall clock %.3f s, phases %s' % (m['inputs_per_second'], m['registers'], m['cold_compile_seconds'], m['warm_compile_seconds'], m['launches'], m['seconds'], m['wall_seconds'], ' '.join('%s %.3f' % p for p in m['phases'].items())) for m in d if m['cell'] == $cell)")"
        done
        best="max(d, key=lambda m: m['inputs_per_second'])"
        cold=$(json "$WORK/bench.json" "'%.2f' % max(m['cold_compile_seconds'] for m in d)")
        warm=$(json "$WORK/bench.json" "'%.2f' % max(m['warm_compile_seconds'] for m in d)")
        gpu=$(json "$WORK/bench.json" "'%.0f' % ${best}['inputs_per_second']")
        [ "$(json "$WORK/bench.json" "all(m['failed'] == 0 for m in d)")" = True ] && ok "$name: no copy fails with any cell size" || bad "$name: copies fail in measurements"
        awk "BEGIN { exit !($cold < 10) }" && ok "$name: compiled in $cold s (limit 10 s)" || bad "$name: compiled in $cold s (limit 10 s)"
        awk "BEGIN { exit !($warm < 0.5) }" && ok "$name: loaded from the cache in $warm s (limit 0.5 s)" || bad "$name: loaded from the cache in $warm s (limit 0.5 s)"
        cell=$(json "$WORK/bench.json" "${best}['cell']")
        sorted=-
        if timeout "$LIMIT" kinescope wasm bench "$SOURCES/$name.wasm" --inputs "$inputs" --repeat "$repeat" --on cuda:0 --no-cpu --no-cold --cell "$cell" --sort "${extra[@]}" --json >"$WORK/sorted.json" 2>"$WORK/log"; then
            sorted=$(json "$WORK/sorted.json" "'%.0f' % d[0]['inputs_per_second']")
            echo "figure  $name: cell $cell, sorted: $sorted inputs/s"
        else
            bad "$name: measurement of sorted inputs: $(tail -n 2 "$WORK/log")"
        fi
        kernels=$(json "$WORK/bench.json" "'%.0f' % (${best}['inputs'] / max(1e-6, ${best}['device_seconds']))")
        wall=$(json "$WORK/bench.json" "'%.0f' % (${best}['inputs'] / ${best}['wall_seconds'])")
        ratio=-
        [ "$wasmtime_rate" != - ] && ratio=$(awk "BEGIN { s = \"$sorted\" + 0; printf \"%.2f\", (s > $gpu ? s : $gpu) / $wasmtime_rate }")
        printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$((largest * repeat))" "$cold" "$warm" "$(json "$WORK/bench.json" "${best}['registers']")" "$(json "$WORK/bench.json" "${best}['cell']")" "$gpu" "$sorted" "$kernels" "$wall" "$cpu_rate" "$wasmtime_rate" "$native_rate" "$ratio" >>"$table"
    else
        bad "$name: measurements: $(tail -n 2 "$WORK/log")"
    fi
done

# One trapped copy among many: the others end as ever, at the same speed.
cat >"$WORK/trap.wat" <<'WAT'
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1 1)
  (data (i32.const 0) "\40\00\00\00\08\00\00\00")
  (func $work (param $n i32) (result i32) (local $i i32)
    (if (i32.eq (local.get $n) (i32.const 0x70617274)) (then unreachable))
    (loop $next
      (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 1664525)) (i32.const 1013904223)))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100000))))
    (local.get $n))
  (func (export "_start")
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.store (i32.const 64) (call $work (i32.load (i32.const 64))))
    (i32.store (i32.const 4) (i32.const 4))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
WAT
python3 - "$FILES" <<'PYTHON'
import os, sys
for name, bad in (("good", None), ("bad", 9001)):
    folder = os.path.join(sys.argv[1], "inputs", "trap-" + name)
    os.makedirs(folder, exist_ok=True)
    for n in range(16384):
        with open(os.path.join(folder, f"{n:06}"), "wb") as f:
            f.write(b"trap" if n == bad else (n * 2654435761 % 2**32).to_bytes(4, "little"))
PYTHON
run_traps() { rm -rf "$2"; timeout "$LIMIT" kinescope wasm run "$WORK/trap.wat" --inputs "$1" -o "$2" --on cuda:0 >"$WORK/log" 2>&1; }
run_traps "$FILES/inputs/trap-good" "$FILES/out/good" && ok "16384 copies without a trap" || bad "16384 copies without a trap: $(tail -n 2 "$WORK/log")"
run_traps "$FILES/inputs/trap-bad" "$FILES/out/bad"
code=$?
if [ $code = 1 ] && [ "$(json "$FILES/out/bad/report.json" "[r['input'] for r in d['runs'] if r['trap']] == ['009001'] and next(r['trap'] for r in d['runs'] if r['trap'])['kind'] == 'unreachable' and next(r['trap'] for r in d['runs'] if r['trap'])['offset'] is not None")" = True ]; then
    ok "one copy of 16384 traps: $(json "$FILES/out/bad/report.json" "next(r['trap'] for r in d['runs'] if r['trap'])")"
else
    bad "one trapped copy: exit $code, $(tail -n 2 "$WORK/log")"
fi
rm -f "$FILES/out/good/009001".* "$FILES/out/bad/009001".*
same "$FILES/out/good" "$FILES/out/bad" && [ "$(ls "$FILES/out/bad" | wc -l)" = "$(ls "$FILES/out/good" | wc -l)" ] && ok "the other 16383 copies give the same outputs" || bad "other copies differ: $(head -n 2 "$WORK/log")"
echo "figure  16384 copies: $(json "$FILES/out/good/report.json" "'%.3f' % d['seconds']") s without a trap, $(json "$FILES/out/bad/report.json" "'%.3f' % d['seconds']") s with one"

# A copy that never ends is stopped by its fuel; the others end.
cat >"$WORK/endless.wat" <<'WAT'
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1 1)
  (data (i32.const 0) "\40\00\00\00\08\00\00\00")
  (func (export "_start")
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (loop $forever (br_if $forever (i32.eq (i32.load (i32.const 64)) (i32.const 0x70617274))))))
WAT
rm -rf "$FILES/out/endless"
mkdir -p "$FILES/inputs/endless"
printf 'trap' >"$FILES/inputs/endless/a"
for n in b c d; do printf 'good' >"$FILES/inputs/endless/$n"; done
timeout 120 kinescope wasm run "$WORK/endless.wat" --inputs "$FILES/inputs/endless" -o "$FILES/out/endless" --on cuda:0 --limit-time 2 >"$WORK/log" 2>&1
if [ $? = 1 ] && [ "$(json "$FILES/out/endless/report.json" "[(r['trap'] or {}).get('kind') for r in d['runs']] == ['time limit', None, None, None]")" = True ]; then
    ok "a copy that never ends is stopped after $(json "$FILES/out/endless/report.json" "'%.1f' % d['seconds']") s"
else
    bad "a copy that never ends: $(tail -n 2 "$WORK/log")"
fi

column -t -s "$(printf '\t')" "$table" 2>/dev/null || cat "$table"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
