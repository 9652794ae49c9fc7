#!/bin/bash
# Programs with their device in another process and on an agent of this machine: the part "remote" of make test-cuda.
# Three ways: cuda:0 (a worker process), unix (an agent by its socket, with shared memory), tcp (an agent by its encrypted
# connection). Results equal those of the native run. Figures are printed and not judged.
# One line a check, "figure" lines for measurements; the last line is "N passed, N failed".
# BIN=FOLDER: where kinescope, kinescope-agent, cuda-client and the libraries are, and run_relayed for
# the costs of a connection without encryption. WORK=FOLDER: where results go.
# SHARED=FOLDER: the CUDA programs with a shared runtime (default: built here by NVCC; FLAGS adds folders). CUDA_LIBS: folders
# with the libraries of CUDA that programs find at run time, besides those of nvcc's toolkit. PROGRAMS=FOLDER: the programs with a static
# runtime. WAYS: which of cuda unix tcp. CHECKS: which of constants
# programs clients errors static recordings python costs times. CLIENTS: which programs of cuda-client. MAX_COPY_MIB: largest copy of the figures
# (128; 1024 for 1 GiB). VECTOR_ADD, GEMM: their sizes in the figures. LIMIT: seconds of one command.
set -u
cd "$(dirname "$0")/.." || exit 2
BIN=$(cd "${BIN:-target/release}" && pwd) || exit 2
WORK=${WORK:-target/cuda-remote}
mkdir -p "$WORK" && WORK=$(cd "$WORK" && pwd) || exit 2
PATH=$BIN:$PATH
LIMIT=${LIMIT:-120}
MAX_COPY_MIB=${MAX_COPY_MIB:-128}
ways=${WAYS:-cuda unix tcp}
passed=0
failed=0
ok() { passed=$((passed + 1)); printf 'ok      %s\n' "$*"; }
bad() { failed=$((failed + 1)); printf 'FAILED  %s\n' "$*"; }
json() { python3 -S -c 'import json,sys; d=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2" 2>/dev/null; }
now() { date +%s%N; }
seconds() { awk "BEGIN { printf \"%.3f\", ($2 - $1) / 1e9 }"; }
# last_line FILE: the last line, without those in which Kinescope reports what it did.
last_line() { grep . "$1" | grep -v '^kinescope: .*kine: ' | tail -n 1 | cut -c1-200; }
wants() { case " ${CHECKS:-$1} " in *" $1 "*) return 0 ;; esac; return 1; }
wants_way() { case " $ways " in *" $1 "*) return 0 ;; esac; return 1; }
for file in kinescope kinescope-agent cuda-client libkinescope_cuda.so libkinescope_remote_cuda.so libkinescope_remote_cudart_12.so \
    libkinescope_remote_cudart_13.so libkinescope_remote_cublas_12.so libkinescope_remote_cublas_13.so libkinescope_remote_curand.so; do
    [ -e "$BIN/$file" ] || { echo "$BIN has no $file"; exit 2; }
done

# The programs, with the runtime as a shared library. Native runs, and the workers' cuBLAS, find NVIDIA's libraries.
NVCC=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
libraries=${CUDA_LIBS:-}
if [ -x "$NVCC" ]; then
    toolkit=$(dirname "$(dirname "$(readlink -f "$NVCC")")")
    libraries=${libraries:+$libraries:}$toolkit/lib64:$toolkit/lib
fi
[ -n "$libraries" ] && export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries"
if [ -z "${SHARED:-}" ] && [ -x "$NVCC" ]; then
    SHARED=$WORK/programs
    make -s -j8 -C tests/cuda/programs CUDART=shared OUT="$SHARED" NVCC="$NVCC" FLAGS="${FLAGS:-}" >"$WORK/make.log" 2>&1 || { tail -n 20 "$WORK/make.log"; echo "the programs do not build"; exit 2; }
fi
[ -n "${SHARED:-}" ] || echo "skipped: the programs of tests/cuda/programs (no nvcc)"

# Keys and the socket are in a folder with a short name: the name of a socket has 107 bytes at most.
state=$(mktemp -d /tmp/kinescope-remote.XXXXXX) || exit 2
agent=
stop_agent() {
    [ -n "$agent" ] && kill "$agent" 2>/dev/null && wait "$agent" 2>/dev/null
    agent=
}
end() { stop_agent; [ -n "$state" ] && rm -rf "$state"; }
trap end EXIT
trap 'exit 130' INT TERM

# Starts an agent on a free port, with the client's key, and tells the client the agent's key.
start_agent() {
    local own theirs
    export KINESCOPE_KEYS=$state/client
    own=$(kinescope agents --own-key | grep -oE '[0-9a-f]{64}' | head -n 1)
    kinescope-agent --keys "$state/agent" keys trust tests "$own" >"$WORK/agent.log" 2>&1 || return 1
    kinescope-agent --keys "$state/agent" serve --live --listen 127.0.0.1:0 --unix "$state/socket" </dev/null >"$WORK/agent.out" 2>"$WORK/agent.log" &
    agent=$!
    for _ in $(seq 100); do
        port=$(sed -n 's/^listening on 127\.0\.0\.1:\([0-9]*\)$/\1/p' "$WORK/agent.out")
        [ -n "$port" ] && [ -S "$state/socket" ] && break
        kill -0 "$agent" 2>/dev/null || return 1
        sleep 0.1
    done
    [ -n "$port" ] || return 1
    theirs=$(kinescope-agent --keys "$state/agent" keys list | grep '^this agent' | grep -oE '[0-9a-f]{64}')
    sed -i '/^peer = /d' "$state/client/keys.toml"
    printf '\n[[peer]]\nname = "tests"\npublic_key = "%s"\naddress = "127.0.0.1:%s"\npaired_at = 1767225600\n' "$theirs" "$port" >>"$state/client/keys.toml"
}
start_agent || { echo "the agent does not start: $(last_line "$WORK/agent.log")"; exit 2; }
# target_of WAY: what --on names.
target_of() { case $1 in cuda) echo cuda:0 ;; unix) echo "agent://$state/socket/cuda0" ;; tcp) echo "agent://127.0.0.1:$port/cuda0" ;; esac; }
# on WAY COMMAND…: runs a program there; on native: by itself; on plain: behind a relay over TCP without encryption.
on() {
    local way=$1; shift
    case $way in
        native) timeout "$LIMIT" "$@" ;;
        plain) LANES=8 timeout "$LIMIT" run_relayed "$BIN/libkinescope_remote_cuda.so" "$@" ;;
        *) timeout "$LIMIT" kinescope run --on "$(target_of "$way")" -- "$@" ;;
    esac
}
# run_program WAY FILES COMMAND…: FILES.text, .err, .code and .out get what it prints, its exit code and its bytes.
run_program() {
    local way=$1 files=$2; shift 2
    rm -f "$files.out"
    on "$way" "$@" --out "$files.out" >"$files.all" 2>"$files.err"
    echo $? >"$files.code"
    # cuBLAS prints wrong arguments through the C library, which holds them back as long as it likes.
    { grep -v '^ \*\* On entry' "$files.all"; grep '^ \*\* On entry' "$files.all"; } >"$files.text"
    [ -e "$files.out" ] || : >"$files.out"
}
# same FILES FILES: whether exit code, bytes and text are equal.
same() { cmp -s "$1.code" "$2.code" && cmp -s "$1.out" "$2.out" && cmp -s "$1.text" "$2.text"; }
# compare NAME COMMAND…: the same results natively and in each way.
compare() {
    local name=$1 way equal='' wrong=''; shift
    for way in $ways; do
        run_program "$way" "$WORK/remote" "$@"
        if same "$WORK/native" "$WORK/remote"; then equal="$equal $way"; else wrong="$wrong $way (exit $(cat "$WORK/remote.code"), not $(cat "$WORK/native.code"): $(last_line "$WORK/remote.err"))"; fi
    done
    if [ -z "$wrong" ]; then ok "$name gives the same: $equal"; else bad "$name differs:$wrong; equal:${equal:- none}"; fi
}

# Constant data: the second start of a program sends digests. The first programs of this agent, so that it has nothing.
if wants constants && wants_way tcp; then
    for start in first second; do
        timeout "$LIMIT" kinescope run --json --on "$(target_of tcp)" -- cuda-client constants >"$WORK/constants.text" 2>"$WORK/log"
        sed -n '/^{/,$p' "$WORK/constants.text" >"$WORK/constants-$start.json"
    done
    sent="d['processes'][0]['wire_bytes_sent']"
    echo "figure  constants (100 MiB), bytes sent over the connection: first start $(json "$WORK/constants-first.json" "$sent"), second start $(json "$WORK/constants-second.json" "$sent")"
fi

# Programs with the shared runtime. driver_api without the address of registered memory, which is not served.
if wants programs && [ -n "${SHARED:-}" ]; then
    for program in vector_add reduction linked globals streams graph cooperative gemm thrust_sort wrong_for_some stride fork_and_threads \
        faulty launch_cost runtime_calls hotspot pathfinder lud nw srad backprop texture driver_api; do
        arguments=()
        [ $program = driver_api ] && arguments=(--skip registered)
        run_program native "$WORK/native" "$SHARED/$program" "${arguments[@]}"
        if [ "$(cat "$WORK/native.code")" = 0 ]; then compare "$program" "$SHARED/$program" "${arguments[@]}"; else bad "$program by itself: $(last_line "$WORK/native.err")"; fi
    done
fi
# Programs on the driver alone. What does not run natively, for want of a library, is left out.
wants clients && for program in ${CLIENTS:-vector_add reduction globals stride wrong_for_some faulty cooperative linked streams early graph net besides nodes feedback queries owners threads transfers memory corners mapped shared past collective assembled arrays details constants states steps blas blas_states blas_failure blas_missing random}; do
    run_program native "$WORK/native" cuda-client "$program"
    if [ "$(cat "$WORK/native.code")" = 0 ]; then compare "client $program" cuda-client "$program"; else echo "skipped: client $program does not run natively: $(last_line "$WORK/native.err")"; fi
done

# Errors: the call and the error's name, and the exit code. Lines of Kinescope, which come too, are not compared, and neither
# are descriptions of errors, which are its own.
error_of() { sed -n 's/^\(faulty.*: \)[^:(]*(\(cuda[A-Za-z]*\))$/\1\2/p; t; /^faulty/p' "$WORK/$1.err"; }
compare_error() {
    local name=$1 way; shift
    on native "$@" >/dev/null 2>"$WORK/native.err"; echo $? >"$WORK/native.code"
    for way in $ways; do
        on "$way" "$@" >/dev/null 2>"$WORK/remote.err"; echo $? >"$WORK/remote.code"
        if [ "$(cat "$WORK/native.code")" != 0 ] && cmp -s "$WORK/native.code" "$WORK/remote.code" && [ "$(error_of native)" = "$(error_of remote)" ]; then
            ok "$name, $way: the same error: $(grep '^faulty' "$WORK/remote.err" | head -n 1)"
        else
            bad "$name, $way: exit $(cat "$WORK/remote.code"), not $(cat "$WORK/native.code"): '$(last_line "$WORK/remote.err")', not '$(last_line "$WORK/native.err")'"
        fi
    done
}
wants errors && [ -n "${SHARED:-}" ] && compare_error "faulty --bad" "$SHARED/faulty" --bad
wants errors && compare_error "client faulty --bad" cuda-client faulty --bad

# A static runtime: one message, and the exit code as on a machine without a GPU.
if wants static && [ -x "${PROGRAMS:-}/vector_add" ]; then
    CUDA_VISIBLE_DEVICES='' timeout "$LIMIT" "$PROGRAMS/vector_add" >"$WORK/log" 2>&1
    code=$?
    echo "figure  static runtime, no device: exit $code, $(last_line "$WORK/log")"
    for way in $ways; do
        on "$way" "$PROGRAMS/vector_add" >"$WORK/log" 2>&1
        remote=$?
        if [ $remote = $code ] && [ "$(grep -c "contains NVIDIA's CUDA runtime" "$WORK/log")" = 1 ]; then ok "static runtime, $way: the message, and exit $remote: $(last_line "$WORK/log")"; else bad "static runtime, $way: exit $remote, not $code: $(last_line "$WORK/log")"; fi
    done
fi

# recorded NAME COMMAND…: recorded in each way, the recording is sound and replays.
recorded() {
    local name=$1 way file; shift
    run_program native "$WORK/native" "$@"
    for way in $ways; do
        file=$WORK/r-$name-$way.kine
        rm -f "$file" "$WORK/r-$name-$way"-*.kine
        timeout "$LIMIT" kinescope run --on "$(target_of "$way")" --record "$file" -- "$@" --out "$WORK/remote.out" >"$WORK/log" 2>&1 || { bad "$name recorded, $way: $(last_line "$WORK/log")"; continue; }
        cmp -s "$WORK/native.out" "$WORK/remote.out" || { bad "$name recorded, $way: other bytes"; continue; }
        timeout "$LIMIT" kinescope verify "$file" >"$WORK/log" 2>&1 || { bad "$name recorded, $way: verify: $(last_line "$WORK/log")"; continue; }
        timeout "$LIMIT" kinescope replay "$file" --on cuda:0 --json >"$WORK/replay.json" 2>"$WORK/log"
        if [ "$(json "$WORK/replay.json" "d['outcome'] == 'match' and len(d['calls']['outputs']) > 0")" = True ]; then
            ok "$name recorded, $way: $(json "$WORK/replay.json" "d['calls']['launches']") launches, $(json "$WORK/replay.json" "len(d['calls']['outputs'])") outputs bit-equal in a replay"
        else
            bad "$name recorded, $way: replay: $(json "$WORK/replay.json" "d['failure'] or [o for o in d['calls']['outputs'] if o['differs_at'] is not None][:3]") $(last_line "$WORK/log")"
        fi
    done
}
if ! wants recordings; then
    :
elif [ -n "${SHARED:-}" ]; then
    for program in vector_add hotspot srad; do recorded $program "$SHARED/$program"; done
else
    for program in vector_add streams graph; do recorded $program cuda-client $program; done
fi

# Python: the last lines of what fails are printed.
wants python && for name in cuda-python numba cupy triton torch; do
    timeout "$LIMIT" python3 tests/cuda/libraries/remote.py $name >"$WORK/native.text" 2>"$WORK/native.err"
    code=$?
    if [ $code != 0 ]; then echo "skipped: $name does not run natively: $(last_line "$WORK/native.err")"; continue; fi
    for way in $ways; do
        on "$way" python3 tests/cuda/libraries/remote.py $name >"$WORK/remote.text" 2>"$WORK/remote.err"
        code=$?
        # Judged are those that use the driver API alone.
        case $name in
            cuda-python | numba) if [ $code = 0 ] && cmp -s "$WORK/native.text" "$WORK/remote.text"; then ok "$name, $way: $(last_line "$WORK/remote.text")"; else bad "$name, $way: exit $code"; fi ;;
            *) echo "figure  $name, $way: exit $code $(cmp -s "$WORK/native.text" "$WORK/remote.text" && echo "and the native result")" ;;
        esac
        [ $code = 0 ] || cat "$WORK/remote.text" "$WORK/remote.err" | tail -n 4 | cut -c1-200 | sed 's/^/        /'
    done
done

# Costs of calls and copies.
costs() {
echo "figure  cores of this machine: $(nproc); the tcp way encrypts on them"
plain=
[ -x "$BIN/run_relayed" ] && wants_way tcp && plain=plain
# All ways in turn, three times, and the best of each: a machine is not equally fast all the time.
rm -f "$WORK"/costs.*
for _ in 1 2 3; do
    for way in native $ways $plain; do
        on "$way" cuda-client costs "$MAX_COPY_MIB" >"$WORK/log" 2>>"$WORK/costs.$way" || echo "figure  costs, $way: $(last_line "$WORK/costs.$way")"
    done
done
# shellcheck disable=SC2086  # names of ways
python3 -S - "$WORK" native $ways $plain <<'PYTHON'
import os, re, sys
folder, *ways = sys.argv[1:]
rows = {}
for way in ways:
    for line in open(os.path.join(folder, "costs." + way)):
        found = re.match(r"(.+): ([0-9.]+) (ns|GiB/s)( |$)", line)
        if found:
            row = rows.setdefault((found[1], found[3]), {})
            best = max if found[3] == "GiB/s" else min
            row[way] = best(row.get(way, float(found[2])), float(found[2]))
print("figure  " + "%-40s %-6s" % ("costs", "unit") + "".join("%12s" % way for way in ways) + "".join("%14s" % (way + ":native") for way in ways[1:]))
for (name, unit), values in rows.items():
    native = values.get("native")
    ratios = [values[way] / native if way in values and native else None for way in ways[1:]]
    cells = "".join("%12s" % ("%.2f" % values[way] if way in values else "-") for way in ways)
    print("figure  " + "%-40s %-6s" % (name, unit) + cells + "".join("%14s" % ("%.2f" % ratio if ratio is not None else "-") for ratio in ratios))
PYTHON
}
wants costs && costs

# figure_of NAME COMMAND…: seconds from start to end, the shortest of three.
figure_of() {
    local name=$1 way line='' begun best took; shift
    for way in native $ways; do
        best=-
        for _ in 1 2 3; do
            begun=$(now)
            on "$way" "$@" >"$WORK/log" 2>&1 || { best="exit $?"; break; }
            took=$(seconds "$begun" "$(now)")
            best=$(awk -v a="$best" -v b="$took" 'BEGIN { print a == "-" || b < a ? b : a }')
        done
        line="$line $way $best"
    done
    echo "figure  $name, seconds from start to end:$line"
}
if ! wants times; then
    :
elif [ -n "${SHARED:-}" ]; then
    figure_of vector_add "$SHARED/vector_add" "${VECTOR_ADD:-67108864}"
    figure_of gemm "$SHARED/gemm" "${GEMM:-1024}"
else
    figure_of "client vector_add" cuda-client vector_add "${VECTOR_ADD:-4000000}"
fi
kill -0 "$agent" 2>/dev/null && ok "the agent still runs" || bad "the agent ended: $(last_line "$WORK/agent.log")"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
